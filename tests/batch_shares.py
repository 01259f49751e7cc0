"""A batch spelled out: the decode group's rows one by one, then the others."""

from sim.scheduling.batch import Batch, Scheduled
from sim.scheduling.continuous import ContinuousScheduler


def shares_of(batch: Batch, scheduler: ContinuousScheduler) -> list[Scheduled]:
    """Return who got how many tokens, in the order of the running list; to be called right after `schedule`."""
    rows = [
        Scheduled(request, 1, request.computed_tokens + batch.step - request.settled_step - 1, samples=True)
        for request in scheduler.group.members.values()
    ]
    assert len(rows) == batch.rows
    return rows + batch.scheduled
