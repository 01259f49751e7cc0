"""Shedding: above a mark of KV usage, requests of low priority are dropped so that the others keep their memory.

Who waits goes first, for that costs nothing; then who runs, the last admitted first, until usage is at the mark. vLLM
counts priority downwards: a class is low from `shed_priority` on.
"""

from collections.abc import Sequence

from sim.scheduling.request import Request


def waiting_to_shed(waiting: Sequence[Request], lowest_kept: int) -> list[Request]:
    """Return those that wait and may be dropped."""
    return [request for request in waiting if request.priority >= lowest_kept]


def running_to_shed(running: Sequence[Request], lowest_kept: int) -> Request | None:
    """Return whom to drop next of those that run: of the lowest class the last admitted; never the last one running."""
    low = [request for request in running if request.priority >= lowest_kept]
    if not low or len(running) < 2:
        return None
    return max(low, key=_lowest_and_last)


def _lowest_and_last(request: Request) -> tuple[int, int]:
    return request.priority, request.place
