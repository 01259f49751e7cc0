"""One run by our engine and by the plain loop, and what must be equal: every field of every record, bit for bit."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from unittest.mock import patch

import simpy
from plain.block_pool import BlockPool as PlainPool
from plain.engine import Engine as PlainEngine
from plain.scheduler import ContinuousScheduler as PlainScheduler
from turn_records import FIELDS as RECORD_FIELDS

from sim.engine.record import EngineLog, Run, TurnRecord
from sim.engine.recorded import RecordedLoad, simulate_recorded
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.steptime.whole_steps import ScatteredSteps

_TOKENS = {"steps", "token_steps"}  # where our engine keeps token times; the plain one keeps the times themselves
FIELDS = [name for name in RECORD_FIELDS if name not in _TOKENS]
COUNTS = ("steps", "computed_tokens", "evicted_blocks", "running_peak")
SUMS = ("busy_s", "kv_usage_peak", "kv_usage_seconds")  # added up in another order


@contextmanager
def plain_engines() -> Iterator[list[PlainEngine]]:
    """Let simulations be run by plain loops; yields those that were made."""
    made: list[PlainEngine] = []

    def plain_engine_of(env: simpy.Environment, setup: EngineSetup) -> PlainEngine:
        pool = PlainPool(setup.num_gpu_blocks, enable_prefix_caching=setup.enable_prefix_caching)
        made.append(PlainEngine(env, PlainScheduler(setup.scheduler, pool), setup.steps))
        return made[-1]

    with (
        patch("sim.engine.simulation.engine_of", plain_engine_of),
        patch("sim.engine.recorded.engine_of", plain_engine_of),
    ):
        yield made


def run_both(setup: EngineSetup, load: LoadSetup, seed: int) -> Run:
    """Simulate a load both ways, assert that the runs are the same, and return ours."""
    (run,) = _same_runs(setup, lambda one: [simulate(one, load, seed)])
    return run


def run_both_recorded(setup: EngineSetup, loads: Sequence[RecordedLoad], engines: int) -> list[Run]:
    """Do the same with given requests."""
    return _same_runs(setup, lambda one: simulate_recorded(one, loads, engines))


def _same_runs(setup: EngineSetup, runs_of: Callable[[EngineSetup], list[Run]]) -> list[Run]:
    steps = setup.steps
    again = replace(setup, steps=deepcopy(steps) if isinstance(steps, ScatteredSteps) else steps)  # drawn anew
    ours = runs_of(setup)
    with plain_engines() as made:
        theirs = runs_of(again)
    times_s = {record: times for engine in made for record, times in engine.token_times_s.items()}
    for mine, other in zip(ours, theirs, strict=True):
        _assert_same_records(mine, other, times_s)
        _assert_same_log(mine.log, other.log)
        assert (mine.duration_s, mine.num_gpu_blocks) == (other.duration_s, other.num_gpu_blocks)
    return ours


def _assert_same_records(ours: Run, theirs: Run, times_s: dict[TurnRecord, list[float]]) -> None:
    for mine, other in zip(ours.records, theirs.records, strict=True):
        where = mine.session, mine.turn
        for name in FIELDS:  # as text: NaN equals NaN, and no bit is lost
            assert repr(getattr(mine, name)) == repr(getattr(other, name)), (name, where)
        tokens_s = [time_s - other.origin_s for time_s in times_s.get(other, [])]
        assert mine.token_times_s == tokens_s, where
        assert mine.received_tokens == len(tokens_s), where


def _assert_same_log(mine: EngineLog, other: EngineLog) -> None:
    for name in COUNTS:
        assert getattr(mine, name) == getattr(other, name), name
    for name in SUMS:
        one, two = getattr(mine, name), getattr(other, name)
        assert math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12), name
