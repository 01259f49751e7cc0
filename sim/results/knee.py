"""The knee: the smallest number of sessions whose p99 TTFT is more than 3 times what an unlimited KV cache gives.

It is a counterfactual, not a look at the curve: the same sessions, from the same random numbers, meet the same
engine with room for everything. What is slow there too (prefill, queueing, decode) is no fault of the cache.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

KNEE_RATIO = 3.0

Ratios = Sequence[float]  # p99 TTFT over p99 TTFT without the limit, one a seed


@dataclass(frozen=True, slots=True)
class Knee:
    """Where the knee lies; all None when no tested count is past it."""

    sessions: int | None  # the smallest tested count past it
    refined_sessions: int | None  # by bisection over the integers below that
    low: int | None  # smallest and largest over single seeds
    high: int | None


def past_knee(ratios: Ratios) -> bool:
    """Whether a point is past the knee: the mean ratio over its seeds exceeds 3."""
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return bool(known) and sum(known) / len(known) > KNEE_RATIO


def find_knee(tested: Mapping[int, Ratios], probed: Mapping[int, Ratios] = MappingProxyType({})) -> Knee:
    """Return the knee of the tested counts, refined by what was probed between them: see `next_probe`."""
    grid, refined, _ = _bisected(tested, probed)
    if grid is None:
        return Knee(None, None, None, None)
    known = {**tested, **probed}
    single = [_of_seed(known, seed) for seed in range(len(tested[grid]))]
    found = [count for count in single if count is not None]
    return Knee(grid, refined, min(found, default=None), max(found, default=None))


def next_probe(tested: Mapping[int, Ratios], probed: Mapping[int, Ratios]) -> int | None:
    """Return the count to simulate next in order to refine the knee; None when nothing is left to find out.

    Bisection takes the ratio to cross 3 once between the last count below the knee and the first past it.
    """
    return _bisected(tested, probed)[2]


class _Bisected(NamedTuple):
    grid: int | None  # the smallest tested count past the knee
    refined: int | None  # the smallest known one
    probe: int | None  # the next to test


def _bisected(tested: Mapping[int, Ratios], probed: Mapping[int, Ratios]) -> _Bisected:
    grid = next((count for count in sorted(tested) if past_knee(tested[count])), None)
    if grid is None:
        return _Bisected(None, None, None)
    below = max((count for count in tested if count < grid), default=0)
    above = grid
    while above - below > 1:
        middle = (above + below) // 2
        if middle not in probed:
            return _Bisected(grid, above, middle)
        below, above = (below, middle) if past_knee(probed[middle]) else (middle, above)
    return _Bisected(grid, above, None)


def _of_seed(known: Mapping[int, Ratios], seed: int) -> int | None:
    """Return the smallest known count that this seed alone puts past the knee."""
    return next((count for count in sorted(known) if past_knee(known[count][seed : seed + 1])), None)


def slo_capacity(counts: Sequence[int], met: Sequence[bool]) -> int | None:
    """Return the largest tested count such that the SLO holds there and at every tested count below; else None."""
    capacity = None
    for count, holds in sorted(zip(counts, met, strict=True)):
        if not holds:
            break
        capacity = count
    return capacity
