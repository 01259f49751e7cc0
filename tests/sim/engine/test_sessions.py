"""Who asks when: closed loops, arrivals from outside, stop rules, and random numbers that do not move."""

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from engine_strategies import agent, closed, engine_setup, everything, step_times

from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome, Run, TurnRecord
from sim.engine.simulation import LoadSetup, simulate
from sim.results.metrics import Slo, run_metrics
from workloads.agent import AgentWorkload
from workloads.arrivals import Arrivals, Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart
from workloads.distributions import Constant, Exponential, Normal, Uniform

STEPS = step_times(overhead_s=0.05, per_token_s=1e-4)
RANDOM = AgentWorkload(64, Uniform(1, 5), Normal(80, 20), Uniform(1, 10), Exponential(0.5))


def open_loop(arrivals: Arrivals, workload: AgentWorkload, **stop: Any) -> LoadSetup:
    """Return sessions that arrive from outside."""
    return LoadSetup((Population("session", workload, CommonStart(), arrivals=arrivals),), StopRule(**stop))


def begins(run: Run) -> list[float]:
    """Return when sessions began, in order of arrival."""
    return [record.arrival_s for record in run.records if record.turn == 0]


def test_a_closed_loop_keeps_exactly_n_in_the_system() -> None:
    """Without think time, at every moment between two events five turns are under way, no more and no fewer."""
    workload = AgentWorkload(64, Uniform(1, 4), Normal(80, 20), Uniform(1, 10))
    run = simulate(engine_setup(STEPS, max_num_seqs=2), closed(workload, 5, requests=150), seed=3)
    steps = [(record.arrival_s, 1) for record in run.records]
    steps += [(record.last_token_s, -1) for record in run.records if record.outcome is Outcome.COMPLETED]
    moments: dict[float, int] = defaultdict(int)
    for moment, change in steps:
        moments[moment] += change
    inside = list(itertools.accumulate(moments[moment] for moment in sorted(moments)))
    assert set(inside[:-1]) == {5}
    assert len(inside) > 50


def test_a_client_sends_its_next_turn_only_after_the_last_and_its_thought() -> None:
    """Turn by turn: the arrival is the last token plus the think time, which is constant here."""
    run = simulate(engine_setup(STEPS), closed(agent(64, 4, 80, 5, think_s=0.7), 3, sessions_per_client=2), seed=0)
    by_client: dict[int, list[TurnRecord]] = defaultdict(list)
    for record in run.records:
        by_client[record.client].append(record)
    assert {len(turns) for turns in by_client.values()} == {8}
    for turns in by_client.values():
        for before, after in itertools.pairwise(turns):
            assert after.arrival_s == pytest.approx(before.last_token_s + 0.7)
        assert [record.turn for record in turns] == [0, 1, 2, 3] * 2


@pytest.mark.parametrize(
    ("stop", "completed"),
    [
        ({"requests": 7}, 7),
        ({"sessions_per_client": 2}, 2 * 3),
        ({"duration_s": 2.5}, 4),  # a turn takes 0.6 s: a step of 60 ms and nine of 50 ms, and so on
        ({"requests": 3, "sessions_per_client": 2, "duration_s": 100.0}, 3),
        ({"requests": 100, "sessions_per_client": 1, "duration_s": 100.0}, 3),
        ({"requests": 100, "sessions_per_client": 9, "duration_s": 2.5}, 4),
    ],
)
def test_a_run_ends_at_the_first_limit_reached(stop: dict[str, Any], completed: int) -> None:
    """Completed requests, sessions a client, or seconds, whichever comes first."""
    setup = engine_setup(step_times(overhead_s=0.05, per_token_s=1e-4))
    run = simulate(setup, closed(agent(0, 3, 100, 10), 1, **stop), seed=0)
    done = [record for record in run.records if record.outcome is Outcome.COMPLETED]
    assert len(done) == completed
    if "duration_s" in stop and completed == 4:
        assert run.duration_s == 2.5
        assert run.records[-1].outcome is Outcome.UNFINISHED
    else:
        assert run.duration_s == done[-1].last_token_s


def test_sessions_under_way_when_a_run_ends_are_counted_unfinished() -> None:
    """Every turn that was sent is in the records with one outcome."""
    run = simulate(engine_setup(STEPS, max_num_seqs=1), closed(agent(0, 3, 100, 10), 6, requests=4), seed=0)
    outcomes = [record.outcome for record in run.records]
    assert outcomes.count(Outcome.COMPLETED) == 4
    assert outcomes.count(Outcome.UNFINISHED) == 6


def test_poisson_sessions_come_at_their_rate_whatever_the_server_does() -> None:
    """2 a second over 500 s are 1,000, give or take three sigma; a slow engine sees the same arrivals as a fast one."""
    load = open_loop(Poisson(2.0), agent(0, 1, 20, 1), duration_s=500.0)
    fast, slow = (simulate(engine_setup(step_times(overhead_s=s)), load, seed=1) for s in (1e-3, 0.4))
    assert begins(fast) == begins(slow)
    assert abs(len(begins(fast)) - 1_000) < 3 * 1_000**0.5
    gaps = np.diff(begins(fast))
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.15)  # exponential: as wide as it is long


def test_a_constant_rate_begins_one_session_every_interval() -> None:
    """The first after one interval; each has its own name and its own turns."""
    run = simulate(engine_setup(STEPS), open_loop(ConstantRate(0.5), agent(0, 2, 20, 1), duration_s=21.0), seed=0)
    assert begins(run) == pytest.approx([2.0 * k for k in range(1, 11)])
    assert [record.session for record in run.records if record.turn == 0] == [f"session {k}" for k in range(10)]
    assert [record.turn for record in run.records].count(1) == 10


def test_bursts_begin_their_sessions_together() -> None:
    """Three at 0, 10 and 20 s, none more than the jitter late."""
    load = open_loop(Bursts(3, 10.0, 0.5), agent(0, 1, 20, 1), duration_s=29.0)
    times = np.array(begins(simulate(engine_setup(STEPS), load, seed=0))).reshape(3, 3)
    late = times - np.array([[0.0], [10.0], [20.0]])
    assert (late >= 0).all()
    assert (late <= 0.5).all()
    assert len(set(late.ravel())) == 9


@pytest.mark.parametrize("start", [CommonStart(0.05), CommonStart(0.0)])
def test_another_client_changes_nothing_about_the_others_sessions(start: CommonStart) -> None:
    """Common random numbers: the first four clients say the same, at the same offsets, alone or among nine."""

    def sessions(clients: int, blocks: int) -> dict[str, list[tuple[int, int]]]:
        population = Population("session", RANDOM, start, clients=clients)
        load = LoadSetup((population,), StopRule(sessions_per_client=3))
        run = simulate(engine_setup(STEPS, num_gpu_blocks=blocks), load, seed=5)
        said: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for record in run.records:
            said[record.session].append((record.prompt_tokens, record.output_tokens))
            if record.session.endswith(".0") and record.turn == 0:
                said[f"{record.session} begins"].append((round(record.arrival_s * 1e12), 0))
        return said

    few, many = sessions(4, 1 << 10), sessions(9, 60)
    assert len(few) == 4 * 3 + 4
    assert {name: many[name] for name in few} == few
    assert len(set(map(tuple, many.values()))) > 20  # and clients differ from each other


def test_a_background_changes_nothing_about_the_sessions_of_the_others() -> None:
    """Populations draw from streams of their own."""
    main = Population("session", RANDOM, CommonStart(), clients=3)
    background = Population("background", RANDOM, CommonStart(), clients=2, priority=1)
    runs = [
        simulate(engine_setup(STEPS), LoadSetup(populations, StopRule(sessions_per_client=2)), seed=0)
        for populations in ((main,), (main, background))
    ]
    said = [
        sorted((r.session, r.turn, r.prompt_tokens, r.output_tokens) for r in run.records if r.population == "session")
        for run in runs
    ]
    assert said[0] == said[1]


def test_priority_serves_interactive_turns_before_the_background() -> None:
    """One at a time: under priority an interactive turn waits for at most one other, under fcfs for all six."""
    populations = (
        Population("session", agent(0, 1, 20, 1, think_s=0.5), CommonStart(0.01), clients=1),
        Population("background", agent(0, 1, 20, 1), CommonStart(), clients=6, priority=1),
    )
    waits = {}
    for policy in ("priority", "fcfs"):
        setup = engine_setup(step_times(overhead_s=1.0), max_num_seqs=1, policy=policy)
        run = simulate(setup, LoadSetup(populations, StopRule(duration_s=200.0)), seed=0)
        own = [r.scheduled_s - r.queued_s for r in run.records if r.population == "session" and r.scheduled_s > 0]
        waits[policy] = max(own[1:])
    assert waits["priority"] <= 1.0
    assert waits["fcfs"] >= 5.0


def test_metrics_leave_the_background_out() -> None:
    """A population's metrics are of its own turns."""
    populations = (
        Population("session", agent(0, 2, 20, 1), CommonStart(), clients=1),
        Population("background", agent(0, 3, 20, 1), CommonStart(), clients=2, priority=1),
    )
    run = simulate(engine_setup(STEPS), LoadSetup(populations, StopRule(sessions_per_client=1)), seed=0)
    assert run_metrics(run, "session", Slo())["requests"] == 2
    assert run_metrics(run, "background", Slo())["requests"] == 6


def past_the_knee(blocks: int, seed: int) -> Run:
    """Return a run of eight sessions of four turns that fit 600 blocks and not 150."""
    workload = AgentWorkload(160, Constant(4), Normal(160, 20), Constant(8))
    setup = engine_setup(STEPS, num_gpu_blocks=blocks, async_scheduling=True)
    return simulate(setup, closed(workload, 8, jitter_s=0.01, sessions_per_client=2), seed)


@pytest.mark.parametrize("seed", range(3))
def test_past_the_knee_tokens_are_prefilled_again_and_below_it_none(seed: int) -> None:
    """With room nothing is lost; without, prefixes are evicted before their session returns."""
    below, past = past_the_knee(2_000, seed), past_the_knee(150, seed)
    assert sum(record.reprefilled_tokens for record in below.records) == 0
    assert below.log.evicted_blocks == 0
    assert {record.evicted_by for record in below.records} == {""}
    assert sum(record.reprefilled_tokens for record in past.records) > 5_000
    assert past.log.evicted_blocks > 0


@pytest.mark.parametrize("seed", range(3))
def test_who_evicted_a_prefix_is_a_turn_that_was_there_before(seed: int) -> None:
    """Each name is `session/turn` of a turn that was admitted before the one that missed its blocks."""
    run = past_the_knee(150, seed)
    admitted = {f"{record.session}/{record.turn}": record.scheduled_s for record in run.records}
    accused = [record for record in run.records if record.evicted_by]
    assert len(accused) > 5
    for record in accused:
        assert record.evicted_by in admitted
        assert admitted[record.evicted_by] <= record.scheduled_s
        assert record.reprefilled_tokens > 0
        assert record.turn > 0 or record.evicted_by.split("/")[0] != record.session


def test_the_same_seed_gives_the_same_records_and_another_seed_others() -> None:
    """All fields of all turns, to the last bit."""
    load = closed(RANDOM, 6, jitter_s=0.05, sessions_per_client=2)
    setup = engine_setup(STEPS, num_gpu_blocks=80, async_scheduling=True)
    first, again, other = (everything(simulate(setup, load, seed)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_staggered_clients_begin_evenly_spread() -> None:
    """Four over 8 s begin at 0, 2, 4 and 6 s."""
    population = Population("session", agent(0, 1, 20, 1), StaggeredStart(8.0), clients=4)
    run = simulate(engine_setup(STEPS), LoadSetup((population,), StopRule(sessions_per_client=1)), seed=0)
    assert begins(run) == [0.0, 2.0, 4.0, 6.0]


def test_a_background_never_ends_a_run_and_never_counts() -> None:
    """One session a client and five requests are limits for the main population; the background goes on."""
    main = Population("main", agent(think_s=5.0, turns=3), CommonStart(), clients=1)
    background = Population("background", agent(), CommonStart(), clients=2, ends_run=False)
    setup = engine_setup(step_times(overhead_s=0.01))
    for stop in (StopRule(sessions_per_client=1), StopRule(requests=3)):
        run = simulate(setup, LoadSetup((main, background), stop), seed=0)
        done = [r.population for r in run.records if r.outcome is Outcome.COMPLETED]
        assert done.count("main") == 3
        assert done.count("background") > 20
