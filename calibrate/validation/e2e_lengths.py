"""Lengths that a source states only by their mean: what spread they get.

Answers: their end-to-end times at the lowest load are proportional to their lengths, so the published percentiles of
one give the shape of the other. Prompts of chat logs: a lognormal of the family's usual spread.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

CHAT_PROMPT_SIGMA = 1.0  # of the logarithm; ShareGPT prompts: many short, few of over a thousand tokens
_FLAT = 1.15  # a p95 this close to the median comes from answers of one length
_GRID = (np.arange(2000) + 0.5) / 2000


def fixed(mean: float, count: int) -> NDArray[np.int64]:
    """Return `count` times the same length."""
    return np.full(count, max(1, round(mean)))


def chat_prompts(mean: float, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return lengths of chat prompts with this mean."""
    return _whole(np.exp(CHAT_PROMPT_SIGMA * rng.standard_normal(count)), mean)


def answers(mean: float, count: int, e2e: Mapping[str, float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return answer lengths with this mean, shaped like the end-to-end times (`e2e_mean_s`, `e2e_p50_s`, ...).

    Where those are not given, or as good as equal, all answers are of one length.
    """
    try:
        middle, high, highest = (e2e[f"e2e_{name}_s"] / e2e["e2e_mean_s"] for name in ("p50", "p95", "p99"))
    except (KeyError, ZeroDivisionError):
        return fixed(mean, count)
    if not 0 < middle < high < highest or high / middle < _FLAT:
        return fixed(mean, count)
    knots = np.array([0.0, norm.ppf(0.95), norm.ppf(0.99)])
    logs = np.log([middle, high, highest])

    def shape(below: float, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Quantiles: joined lognormals through the given three, `below` their spread under the median."""
        z = norm.ppf(uniform)
        above = np.interp(z, knots, logs) + np.maximum(z - knots[-1], 0) * (logs[2] - logs[1]) / (knots[2] - knots[1])
        return np.asarray(np.exp(np.where(z < 0, logs[0] + below * z, above)))

    def excess(below: float) -> float:
        return float(shape(below, _GRID).mean()) - 1

    widest, narrowest = 3.0, 0.0
    below = brentq(excess, narrowest, widest) if excess(narrowest) > 0 > excess(widest) else math.log(high / middle)
    return _whole(shape(below, rng.uniform(size=count)), mean)


def _whole(weights: NDArray[np.float64], mean: float) -> NDArray[np.int64]:
    scaled = weights * (mean / weights.mean())
    lengths: NDArray[np.int64] = np.maximum(scaled.round(), 1).astype(np.int64)
    return lengths
