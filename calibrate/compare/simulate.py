"""Simulates the loads of all points under any change: once each, with the same requests, on several cores."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import active_children
from signal import SIG_IGN, SIGINT, signal
from statistics import fmean
from time import perf_counter
from typing import Self

from calibrate.compare.load import SentLoad
from calibrate.compare.terms import Change, changed
from calibrate.validation.e2e_metrics import run_metrics
from sim.engine.recorded import simulate_recorded
from sim.engine.simulation import EngineSetup
from sim.results.cause import with_unlimited_kv
from sim.setup import Deployment, Parts, assemble

WORTH_WORKERS_S = 3.0

Metrics = dict[str, float]
Told = Callable[[int], None]  # how many simulations more are done


@dataclass(frozen=True, slots=True)
class Asked:
    """One variant of a deployment."""

    changes: tuple[Change, ...] = ()
    unlimited_kv: bool = False


def simulated(parts: Parts, place: str, load: SentLoad, *, unlimited_kv: bool) -> Metrics:
    """Return the metrics of one load on an engine of these parts."""
    setup = _engine(parts, place)
    if unlimited_kv:
        setup = with_unlimited_kv(setup)
    frontend = setup.frontend
    sent = replace(load.load, per_request_s=frontend.per_request_s, per_prompt_token_s=frontend.per_prompt_token_s)
    (run,) = simulate_recorded(setup, [sent])
    metrics = run_metrics(run)
    metrics["evicted_blocks"] = float(run.log.evicted_blocks)
    metrics["steps"] = float(run.log.steps)
    return metrics


def _engine(parts: Parts, place: str) -> EngineSetup:
    return assemble(parts, place).engine


class Bench:
    """A deployment and the loads of its points, one a seed."""

    def __init__(
        self, base: Deployment, place: str, loads: Sequence[Sequence[SentLoad]], jobs: int | None = None
    ) -> None:
        self.base = base
        self.place = place
        self._loads = loads
        self._jobs = jobs or os.cpu_count() or 1
        self._known: dict[Asked, list[Metrics]] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._cost_s = 0.0  # of all points once

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._pool is None:
            return
        if isinstance(error, KeyboardInterrupt):  # ours alone, and we do not wait for theirs to end
            for worker in active_children():
                worker.terminate()
        self._pool.shutdown(cancel_futures=True)

    @property
    def simulations(self) -> int:
        """How many one variant takes."""
        return sum(len(seeds) for seeds in self._loads)

    def metrics(self, asked: Sequence[Asked], told: Told = lambda _: None) -> list[list[Metrics]]:
        """Return the metrics of every point under each variant, the mean over seeds.

        Raises a KvcliffError if no such engine can be.
        """
        new = [one for one in dict.fromkeys(asked) if one not in self._known]
        for one, found in zip(new, self._found(new), strict=True):
            self._known[one] = found
            told(self.simulations)
        return [self._known[one] for one in asked]

    def _found(self, new: Sequence[Asked]) -> Iterator[list[Metrics]]:
        parts = [changed(self.base, *one.changes) for one in new]
        if self._pool is None and self._jobs > 1 and self._cost_s * len(new) > WORTH_WORKERS_S:
            self._pool = ProcessPoolExecutor(self._jobs, initializer=_start, initargs=(self.place, self._loads))
        if self._pool is not None:
            calls = [
                [
                    [self._pool.submit(_call, own, point, seed, one.unlimited_kv) for seed in range(len(seeds))]
                    for point, seeds in enumerate(self._loads)
                ]
                for own, one in zip(parts, new, strict=True)
            ]
            for call in calls:
                yield [_mean([future.result() for future in seeds]) for seeds in call]
            return
        for own, one in zip(parts, new, strict=True):
            began_s = perf_counter()
            yield [
                _mean([simulated(own, self.place, load, unlimited_kv=one.unlimited_kv) for load in seeds])
                for seeds in self._loads
            ]
            self._cost_s = perf_counter() - began_s


def _mean(replicates: Sequence[Metrics]) -> Metrics:
    names = {name for metrics in replicates for name in metrics}
    return {name: fmean(metrics[name] for metrics in replicates if name in metrics) for name in sorted(names)}


@dataclass(slots=True)
class _Worker:
    """What a worker process is given once."""

    place: str = ""
    loads: Sequence[Sequence[SentLoad]] = ()


_worker = _Worker()


def _start(place: str, loads: Sequence[Sequence[SentLoad]]) -> None:
    signal(SIGINT, SIG_IGN)
    _worker.place, _worker.loads = place, loads


def _call(parts: Parts, point: int, seed: int, unlimited_kv: bool) -> Metrics:  # noqa: FBT001 - sent to a worker
    return simulated(parts, _worker.place, _worker.loads[point][seed], unlimited_kv=unlimited_kv)
