"""Whom to preempt when a running request finds no block.

    last_admitted           vLLM: whoever began last has lost least, as long as prompts are alike
    least_recently_served   whose last token is oldest; prompts that have given none come first
    cheapest_to_recompute   the fewest tokens with KV: spares long contexts and long answers (founding document 004)

Under the order by priority only requests of the lowest priority are looked at, as in vLLM.
"""

from collections.abc import Callable

from sim.scheduling.request import Request

VictimRank = Callable[[Request], tuple[float, float]]


def _last_served(request: Request) -> tuple[float, float]:
    return (-float(request.token_steps[-1]) if request.token_steps else 0.0), float(request.place)


def _cheapest(request: Request) -> tuple[float, float]:
    return -float(request.computed_tokens), float(request.place)


LAST_ADMITTED = "last_admitted"
VICTIMS: dict[str, VictimRank | None] = {
    LAST_ADMITTED: None,
    "least_recently_served": _last_served,
    "cheapest_to_recompute": _cheapest,
}


def victim_of(running: list[Request], rank: VictimRank, *, by_priority: bool) -> Request:
    """Return the running request that a rank puts highest."""
    if by_priority:
        lowest = max(request.priority for request in running)
        running = [request for request in running if request.priority == lowest]
    return max(running, key=rank)
