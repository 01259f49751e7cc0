"""Jobs on this machine: the same outcomes wherever and in whatever order they run, and failures that stay alone."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from command_line import python
from sweep_jobs import in_order

from sim.run import run_scenario
from sim.sweep import local
from sim.sweep.local import DIED, LocalRunner
from sim.sweep.remote import Call, attempt_packed, packed
from sim.sweep.runner import Job, largest_first
from sim.sweep.task import Failure, Outcome, Task, attempt

ALWAYS = -1.0  # seconds that workers are worth


def test_workers_give_what_this_process_gives_in_whatever_order(jobs: list[Job]) -> None:
    """Rows of turns too; the first job always runs here, to see how long it takes."""
    jobs = [*jobs, Job(jobs[-1].deployment, Task(2, 1, turns=True))]
    here = in_order(list(LocalRunner(1)(jobs)))
    there = in_order(list(LocalRunner(2, worth_workers_s=ALWAYS)(jobs)))
    backwards = in_order(list(LocalRunner(1)(jobs[::-1])))[::-1]
    assert all(isinstance(outcome, Outcome) for outcome in here)
    assert repr(there) == repr(backwards) == repr(here)
    assert here[-1].turns  # type: ignore[union-attr]
    assert len({repr(outcome) for outcome in here}) > 6


def test_a_task_that_raises_costs_nobody_else_anything(jobs: list[Job]) -> None:
    """It is a failure with its error in one line, here and in a worker."""
    broken = [*jobs[:2], Job(jobs[0].deployment, Task(1, 0, "gravity")), *jobs[2:5]]
    for runner in (LocalRunner(1), LocalRunner(2, worth_workers_s=ALWAYS)):
        outcomes = in_order(list(runner(broken)))
        failed = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, Failure)]
        assert failed == [2]
        assert outcomes[2].error == "KeyError: 'gravity'"  # type: ignore[union-attr]
        assert "simulate_task" in outcomes[2].trace  # type: ignore[union-attr]


class Bomb:
    """Takes down whoever unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


def test_a_task_that_kills_its_worker_costs_nobody_else_anything(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found out by trying alone whatever was under way when the worker died."""

    def mined(jobs: list[Job]) -> list[Call]:
        calls = packed(jobs)
        calls[3] = (pickle.dumps(Bomb()), *calls[3][1:])
        return calls

    expected = [attempt(job.deployment, job.task) for job in jobs]
    monkeypatch.setattr(local, "packed", mined)
    outcomes = in_order(list(LocalRunner(2, worth_workers_s=ALWAYS)(jobs)))
    assert outcomes[3] == Failure(DIED)
    assert repr(outcomes[:3] + outcomes[4:]) == repr(expected[:3] + expected[4:])


def test_quick_jobs_never_start_workers(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one process alone, however long it takes; the rest of many slow jobs does."""

    class StartedError(Exception):
        pass

    def start(*_: object) -> None:
        raise StartedError

    monkeypatch.setattr(LocalRunner, "_by_workers", start)
    monkeypatch.setattr(local, "perf_counter", lambda: 0.0)
    assert len(list(LocalRunner(2)(jobs))) == len(jobs)
    assert len(list(LocalRunner(1, worth_workers_s=ALWAYS)(jobs))) == len(jobs)
    clock = iter(range(100))
    monkeypatch.setattr(local, "perf_counter", lambda: float(next(clock)))  # a second each
    with pytest.raises(StartedError):
        list(LocalRunner(2)(jobs))


def test_a_short_run_does_not_import_joblib(small: Path) -> None:
    """It would take as long as the simulation."""
    code = "import sys; from sim.cli import main; main(standalone_mode=False); sys.exit('joblib' in sys.modules)"
    assert python("-c", code, "run", str(small), "--json").returncode == 0


def test_a_run_gives_the_same_result_by_workers(jobs: list[Job]) -> None:
    """Bisection and cause included."""
    deployment = jobs[-1].deployment
    assert run_scenario(deployment) == run_scenario(deployment, runner=LocalRunner(2, worth_workers_s=ALWAYS))


def test_large_loads_go_first(jobs: list[Job]) -> None:
    """Equal ones in their order."""
    levels = [jobs[place].task.level for place in largest_first(jobs)]
    assert levels == sorted(levels, reverse=True)
    assert largest_first(jobs)[0] == 2


def test_what_travels_is_small_and_needs_no_files(jobs: list[Job]) -> None:
    """Parts, not closures: below 16 kB, and simulated from them alone."""
    (call, *_) = packed(jobs)
    assert len(call[0]) < 16_000
    assert repr(attempt_packed(*call)) == repr(attempt(jobs[0].deployment, jobs[0].task))
