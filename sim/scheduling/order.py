"""Who of those that wait goes next: FCFS, LIFO, shortest first, shortest remaining, priority, earliest deadline.

A policy is a rank: the request of the lowest rank is next in line, a preempted one too. Ranks stand still while a
request waits, so the queue is kept sorted. vLLM has FCFS and priority; FCFS needs no rank, for it puts newcomers last
and preempted requests first.

A deadline's slack is the time left until it less the time its prefill takes. The time is the same for all who wait, so
the order by slack is that of deadline less prefill, and no clock is needed.
"""

from collections.abc import Callable

from sim.scheduling.request import Request

Rank = Callable[[Request], tuple[float, float, str]]


def by_priority(request: Request) -> tuple[float, float, str]:
    """Rank the lowest priority value first, as vLLM does; among equals who came first."""
    return request.priority, request.arrival, request.id


def last_come_first(request: Request) -> tuple[float, float, str]:
    """Rank whoever came last first (LIFO): the old ones may wait for ever."""
    return -request.number, 0.0, ""


def shortest_prompt_first(request: Request) -> tuple[float, float, str]:
    """Rank the shortest prompt first, which a server knows when it comes; among equals who came first."""
    return request.prompt_tokens, request.number, ""


def shortest_remaining_first(request: Request) -> tuple[float, float, str]:
    """Rank the fewest tokens still to generate first: what a perfect predictor of lengths would know.

    A token in flight counts as generated, so that its coming back moves nobody who waits.
    """
    return request.output_tokens - request.generated_tokens - request.in_flight_outputs, request.number, ""


def earliest_deadline_first(request: Request) -> tuple[float, float, str]:
    """Rank the least slack before the first token first; `due_s` has its prefill taken off already."""
    return request.due_s, request.number, ""


RANKS: dict[str, Rank | None] = {
    "fcfs": None,
    "priority": by_priority,
    "lifo": last_come_first,
    "shortest_first": shortest_prompt_first,
    "shortest_remaining": shortest_remaining_first,
    "priority_quota": by_priority,
    "earliest_deadline": earliest_deadline_first,
}
