"""When requests came: rate, how bursty, and whether the clock was coarser than it looks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FEW_STAMPS = 0.7  # of the requests: fewer distinct times than that are ticks of a coarse clock
_LEAST_TICK_S = 0.01


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Of a trace whose requests share one clock."""

    span_s: float  # from the first to the last
    per_s: float | None  # None where the span is 0
    cv: float | None  # of the times between two: 1 is Poisson
    tick_s: float | None  # all times are multiples of it, several requests to one; None: no ticks seen
    stamps: int  # distinct times


def arrivals_seen(at_s: NDArray[np.float64]) -> Arrivals | None:
    """Return the arrivals of times that ascend; None if fewer than two requests have one."""
    known = at_s[~np.isnan(at_s)]
    if known.size < 2:
        return None
    between_s = np.diff(known)
    span_s = float(known[-1] - known[0])
    stamps = int(np.count_nonzero(between_s)) + 1
    if span_s <= 0:
        return Arrivals(0.0, None, None, None, stamps)
    mean_s = span_s / between_s.size
    cv = float(between_s.std() / mean_s)
    return Arrivals(span_s, 1 / mean_s, cv, _tick_s(known - known[0], between_s, stamps), stamps)


def _tick_s(since_first_s: NDArray[np.float64], between_s: NDArray[np.float64], stamps: int) -> float | None:
    if stamps < 3 or stamps > _FEW_STAMPS * since_first_s.size:
        return None
    tick_s = float(between_s[between_s > 0].min())
    if tick_s < _LEAST_TICK_S:
        return None
    ticks = since_first_s / tick_s
    return tick_s if bool(np.all(np.abs(ticks - np.rint(ticks)) < 1e-3)) else None
