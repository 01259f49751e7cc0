"""When requests came: rate, how bursty, and whether the clock was coarser than it looks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FEW_STAMPS = 0.7  # of the requests: fewer distinct times than that are ticks of a coarse clock
_LEAST_TICK_S = 0.01
_ROUNDED = 0.02  # of a tick


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Of a trace whose requests share one clock."""

    of: str  # requests; or sessions, where the trace times their first requests alone
    span_s: float  # from the first to the last
    per_s: float | None  # None where the span is 0
    cv: float | None  # of the times between two: 1 is Poisson
    tick_s: float | None  # all times are multiples of it, several requests to one; None: no ticks seen
    stamps: int  # distinct times


def arrivals_seen(at_s: NDArray[np.float64]) -> Arrivals | None:
    """Return the arrivals of some times; None if fewer than two requests have one."""
    known = np.sort(at_s[~np.isnan(at_s)])
    if known.size < 2:
        return None
    between_s = np.diff(known)
    span_s = float(known[-1] - known[0])
    stamps = int(np.count_nonzero(between_s)) + 1
    of = "requests" if known.size == at_s.size else "sessions"
    if span_s <= 0:
        return Arrivals(of, 0.0, None, None, None, stamps)
    mean_s = span_s / between_s.size
    cv = float(between_s.std() / mean_s)
    steps_s = between_s[between_s > 0]
    tick_s = _tick_s(steps_s) if 3 <= stamps <= _FEW_STAMPS * known.size else None
    return Arrivals(of, span_s, 1 / mean_s, cv, tick_s, stamps)


def _tick_s(steps_s: NDArray[np.float64]) -> float | None:
    """Return what all steps are multiples of, to a percent of it: stamps may be rounded to milliseconds."""
    least_s = float(steps_s.min())
    tick_s = float(steps_s[steps_s < 1.01 * least_s].mean())
    if tick_s < _LEAST_TICK_S:
        return None
    ticks = steps_s / tick_s
    return tick_s if bool(np.all(np.abs(ticks - np.rint(ticks)) < _ROUNDED)) else None
