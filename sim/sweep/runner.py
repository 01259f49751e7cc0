"""What runs a list of tasks: a function from jobs to what became of them, in whatever order they finish."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sim.setup import Deployment
from sim.sweep.task import Failure, Outcome, Task


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A task and the deployment it is about."""

    deployment: Deployment
    task: Task


class Finished(NamedTuple):
    """What became of a job, which is named by its place in the list."""

    place: int
    outcome: Outcome | Failure


def largest_first(jobs: Sequence[Job]) -> list[int]:
    """Return the places of jobs by falling load: no worker is left alone with a long one at the end."""
    return sorted(range(len(jobs)), key=lambda place: -jobs[place].task.level)


class Runner(Protocol):
    """Runs jobs, each exactly once, and yields each as it finishes; the order means nothing."""

    def __call__(self, jobs: Sequence[Job], /) -> Iterator[Finished]:
        """Run the jobs."""
