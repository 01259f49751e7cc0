"""The cyclic collector is off while an engine runs: it must be back afterwards, and must have had nothing to do."""

import gc

import pytest
from engine_strategies import agent, closed, engine_setup, step_times

from sim.engine import engine
from sim.engine.collector import collector_off
from sim.engine.simulation import simulate


def is_compiled() -> bool:
    """Tell whether the engine is machine code here."""
    return engine.__file__.endswith((".so", ".pyd"))


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_left_as_it_was(*, was_on: bool) -> None:
    """Also by an error."""
    try:
        (gc.enable if was_on else gc.disable)()
        with pytest.raises(ZeroDivisionError), collector_off():
            _ = 1 / gc.isenabled()
        assert gc.isenabled() == was_on
    finally:
        gc.enable()


@pytest.mark.skipif(is_compiled(), reason="compiled, a whole engine is one cycle once it is over")
def test_more_turns_leave_no_more_garbage() -> None:
    """What the collector finds after a run belongs to the engine and its clients, not to their turns."""

    def garbage_of(turns: int) -> int:
        setup = engine_setup(step_times(overhead_s=0.01), num_gpu_blocks=60, max_num_batched_tokens=512)
        gc.collect()
        run = simulate(setup, closed(agent(prefix=64, turns=3, new=40, output=20), 4, requests=turns), 0)
        assert len(run.records) >= turns
        del run
        return gc.collect()

    garbage_of(5)
    assert garbage_of(600) < garbage_of(60) + 60
