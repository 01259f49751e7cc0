"""kvcliff's simulation: a scenario goes in, the knee, the p50/p99 split and their cause come out.

Start with these, in this order:

    scheduling/request.py, kv/block_pool.py, scheduling/continuous.py   what vLLM V1 decides, step by step
    steptime/model.py, steptime/profile.py                             what a step costs, and from which numbers
    engine/engine.py, engine/clients.py                                the loop and the sessions around it
    results/knee.py, results/cause.py                                  the answers
    scenario.py, setup.py, run.py                                      from a YAML file to a result
    sweep/task.py, sweep/runner.py, sweep/store.py                     many simulations, anywhere, resumed

A file imports only lower rooms (import-linter checks it): errors, units -> catalog -> memory, steptime -> kv ->
scheduling -> engine -> results -> scenario -> setup -> sweep -> run -> report -> commands -> cli.
"""
