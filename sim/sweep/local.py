"""Jobs on this machine: one after another in this process as long as that is quick, else in worker processes.

Starting workers costs a second, so they are brought in only when the time seen so far says that the rest will take
longer than that is worth. What a job gives does not depend on where it ran.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from signal import SIG_IGN, SIGINT, signal
from threading import Thread
from time import perf_counter, sleep

from sim.sweep.remote import attempt_packed, packed
from sim.sweep.runner import Finished, Job, largest_first
from sim.sweep.task import Failure, Task, attempt

WORTH_WORKERS_S = 2.0
PARENT_CHECK_S = 1.0
DIED = "its worker process died: out of memory?"

_Call = tuple[int, bytes, Task, str]  # a job's place, and what attempt_packed wants of it


class LocalRunner:
    """Runs jobs in this process or in `workers` others; None is one a core, 1 is this process alone."""

    def __init__(self, workers: int | None = None, worth_workers_s: float = WORTH_WORKERS_S) -> None:
        self.workers = workers
        self.worth_workers_s = worth_workers_s
        self._started = False

    def __call__(self, jobs: Sequence[Job], /) -> Iterator[Finished]:
        """Yield each job as it finishes."""
        spent_s, seen, levels = 0.0, 0, sum(job.task.level for job in jobs)
        for index, job in enumerate(jobs):
            rest_s = spent_s * (levels - seen) / seen if seen else 0.0  # time goes by load, or faster
            if self._worth_workers(rest_s, len(jobs) - index):
                yield from self._by_workers(jobs, index)
                return
            began_s = perf_counter()
            outcome = attempt(job.deployment, job.task)
            spent_s, seen = spent_s + perf_counter() - began_s, seen + job.task.level
            yield Finished(index, outcome)

    def abandon(self) -> None:
        """Kill workers that an interruption leaves at work, and what they share with this process."""
        if self._started:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=True, kill_workers=True)

    def _worth_workers(self, rest_s: float, jobs: int) -> bool:
        if self.workers == 1 or jobs == 1 or not (self._started or rest_s > self.worth_workers_s):
            return False
        if self.workers is None:
            from joblib import cpu_count

            self.workers = cpu_count()
        return self.workers > 1

    def _by_workers(self, jobs: Sequence[Job], first: int) -> Iterator[Finished]:
        """Run the jobs from an index on; one that takes its worker down takes nothing else with it."""
        self._started = True
        calls = {index: (index, *call) for index, call in enumerate(packed(jobs)) if index >= first}
        left = [index for index in largest_first(jobs) if index >= first]
        suspects: list[int] = []
        while left:
            sent: list[int] = []
            done: set[int] = set()
            try:
                for finished in self._parallel(_sending(calls, left, sent)):
                    done.add(finished.place)
                    yield finished
            except BrokenProcessPool:
                suspects += [index for index in sent if index not in done]
            left = [index for index in left if index not in {*sent, *done}]
        for index in suspects:
            try:
                yield from self._parallel(iter([calls[index]]))
            except BrokenProcessPool:
                yield Finished(index, Failure(DIED))

    def _parallel(self, calls: Iterator[_Call]) -> Iterator[Finished]:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=self.workers, backend="loky", return_as="generator_unordered")
        yield from parallel(delayed(_attempt_at)(*call, parent=os.getpid()) for call in calls)


def _sending(calls: dict[int, _Call], order: Sequence[int], sent: list[int]) -> Iterator[_Call]:
    """Yield the calls in an order, noting each before it leaves."""
    for index in order:
        sent.append(index)
        yield calls[index]


def _attempt_at(place: int, deployment: bytes, task: Task, code: str, parent: int) -> Finished:
    if os.getpid() != parent:
        _end_with(parent)
    return Finished(place, attempt_packed(deployment, task, code))


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """End this worker with the process that started it: soon after that was killed, not by a Ctrl-C of its own.

    Left to itself it would idle for minutes, and print a traceback at a Ctrl-C that is meant for all.
    """
    signal(SIGINT, SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(PARENT_CHECK_S)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
