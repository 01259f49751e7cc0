"""Repeats one timing until its median is known well enough, or its share of the budget is used.

The interval of the median comes from order statistics: between which of the sorted samples the true median lies with
95 % follows from a fair coin, whatever the distribution of step times looks like.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import numpy as np

TIGHT_SHARE = 0.03  # half-width of the interval over the median
MOST_REPEATS = 200
_FEWEST_REPEATS = 3
_WARM_UP_S = 0.02
_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call. The interval is None below six repeats, where none reaches 95 %."""

    median_s: float
    low_s: float | None
    high_s: float | None
    repeats: int


def median_interval(samples: list[float]) -> Timing:
    """Return the median of the samples and its 95 % interval."""
    from scipy.stats import binom

    ordered = np.sort(samples)
    inside = int(binom.ppf(_TAIL, len(ordered), 0.5))  # as many lie outside on each side
    if inside < 1 or binom.cdf(inside - 1, len(ordered), 0.5) > _TAIL:
        return Timing(float(np.median(ordered)), None, None, len(ordered))
    return Timing(float(np.median(ordered)), float(ordered[inside - 1]), float(ordered[-inside]), len(ordered))


def time_until_tight(
    sample: Callable[[], float],
    share_s: float,
    *,
    most_repeats: int = MOST_REPEATS,
    now: Callable[[], float] = monotonic,
) -> Timing:
    """Return the timing of `sample`, which runs what is timed and returns the seconds of one call.

    Stops when the interval is within 3 % of the median, after `most_repeats`, or when `share_s` is used; never before
    three samples.
    """
    started = now()
    while now() - started < min(_WARM_UP_S, share_s / 4):
        sample()
    samples: list[float] = []
    while True:
        samples.append(sample())
        count = len(samples)
        if count < _FEWEST_REPEATS:
            continue
        if count >= most_repeats or now() - started >= share_s:
            return median_interval(samples)
        if count % 5 == 1:  # 6, 11, 16, ...: looking after each sample would stop on luck
            timing = median_interval(samples)
            if _tight(timing):
                return timing


def _tight(timing: Timing) -> bool:
    if timing.low_s is None or timing.high_s is None:
        return False
    return (timing.high_s - timing.low_s) / 2 < TIGHT_SHARE * timing.median_s
