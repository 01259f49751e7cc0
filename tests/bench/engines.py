"""The engine under test, the plain one it must equal bit for bit, and how to tell that it does."""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import simpy
from turn_records import FIELDS

from sim.engine.record import Run, TurnRecord
from sim.engine.simulation import EngineSetup

TIMES = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s")
TOKENS = {"steps", "token_steps", "origin_s"}  # how a record holds its tokens' times: the times are compared

TokenTimes = Callable[[TurnRecord], Sequence[float]]


def own_token_times_s(record: TurnRecord) -> Sequence[float]:
    """Return the times the engine under test left in a record."""
    return record.token_times_s


@contextmanager
def plain_engines() -> Iterator[TokenTimes]:
    """Let every engine be the plain one meanwhile; yields what knows its token times."""
    from plain.block_pool import BlockPool
    from plain.engine import Engine
    from plain.scheduler import ContinuousScheduler

    made: list[Engine] = []

    def plain_engine(env: simpy.Environment, setup: EngineSetup) -> Engine:
        pool = BlockPool(setup.num_gpu_blocks, enable_prefix_caching=setup.enable_prefix_caching)
        made[:] = [Engine(env, ContinuousScheduler(setup.scheduler, pool), setup.steps)]
        return made[0]

    with (
        mock.patch("sim.engine.simulation.engine_of", plain_engine),
        mock.patch("sim.engine.recorded.engine_of", plain_engine),
    ):
        yield lambda record: made[0].token_times_s.get(record, [])
    assert made, "no simulation asked for a plain engine: has engine_of moved?"


class Digest:
    """Hashes runs: `results` covers every field of every record, `times` when things happened alone."""

    def __init__(self) -> None:
        self._results = hashlib.sha256()
        self._times = hashlib.sha256()

    def add(self, run: Run, token_times_s: TokenTimes) -> None:
        """Take in a run."""
        names = [name for name in FIELDS if name not in TOKENS.union(TIMES)]
        for record in run.records:
            times = array("d", [getattr(record, name) for name in TIMES])
            times.extend(token_times_s(record))
            self._times.update(times.tobytes())
            self._results.update(repr([getattr(record, name) for name in names]).encode())
            self._results.update(times.tobytes())
        log = run.log
        self._results.update(
            repr([float(run.duration_s), log.steps, log.computed_tokens, log.evicted_blocks, log.running_peak]).encode()
        )

    @property
    def results(self) -> str:
        """Hash of everything."""
        return self._results.hexdigest()

    @property
    def times(self) -> str:
        """Hash of all times."""
        return self._times.hexdigest()
