"""How values are distributed, in a few numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

PERCENTILES = (5, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Percentiles by linear interpolation, over all values: nothing is sampled."""

    count: int
    mean: float
    least: float
    most: float
    p5: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float


def quantiles(values: ArrayLike) -> Quantiles | None:
    """Return the quantiles of what is not NaN, or None if there is nothing."""
    known = np.asarray(values)
    if known.dtype.kind == "f":
        known = known[~np.isnan(known)]
    if not known.size:
        return None
    points = [float(value) for value in np.percentile(known, PERCENTILES)]
    return Quantiles(known.size, float(known.mean()), float(known.min()), float(known.max()), *points)
