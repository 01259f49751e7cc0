"""Several seeds of one load point: the mean of each metric and its 95 % interval (Student's t over seeds)."""

import math
from collections.abc import Sequence

import numpy as np

from sim.results.metrics import COUNTS

CONFIDENCE = 0.95
FEW_REQUESTS = 1000  # below this a p99 rests on fewer than ten turns


def summarise(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return mean, `<name>_low` and `<name>_high` of every metric; one seed has no interval.

    Seeds in which a metric is undefined (nothing completed) are left out of its mean; counts are rounded.
    """
    point: dict[str, float] = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs], float)
        values = values[~np.isnan(values)]
        mean = float(values.mean()) if len(values) else math.nan
        point[name] = round(mean) if name in COUNTS else mean
        if len(values) > 1:
            half = _t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
            point[f"{name}_low"], point[f"{name}_high"] = max(0.0, mean - half), mean + half
    return point


def rests_on_few(point: dict[str, float]) -> bool:
    """Whether a p99 of this point should be flagged: fewer than 1,000 turns a seed."""
    return point["requests"] < FEW_REQUESTS


def _t_quantile(degrees: int) -> float:
    from scipy.special import stdtrit  # 60 ms to import; only replicated runs need it

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
