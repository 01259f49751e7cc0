"""Distributions as inference-perf describes them: a type, a mean and a standard deviation, clipped to whole numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workloads.distributions import Constant, Distribution, Exponential, Lognormal, Normal, Uniform
from workloads.errors import WorkloadError

Shape = dict[str, Any]
_SIGMAS = 4  # as far as a lognormal is let go: one draw in 30,000 lies beyond
_TAILS = 10  # means of an exponential: likewise


def shape_of(distribution: Distribution, least: int) -> Shape:
    """Return a distribution, its draws clipped below `least`.

    Raises WorkloadError for a kind that this format has no name for.
    """
    match distribution:
        case Constant():
            return _shape("fixed", distribution.value, 0.0, (distribution.value, distribution.value), least)
        case Uniform():
            low, high = distribution.low, distribution.high
            return _shape("uniform", (low + high) / 2, (high - low) / math.sqrt(12), (low, high), least)
        case Normal():
            mean, std = distribution.mean, distribution.std
            return _shape("normal", mean, std, (mean - 3 * std, mean + 3 * std), least)
        case Lognormal():
            std = distribution.mean * math.sqrt(math.expm1(distribution.sigma**2))
            most = distribution.median * math.exp(_SIGMAS * distribution.sigma)
            return _shape("lognormal", distribution.mean, std, (0.0, most), least)
        case Exponential():  # there is none by that name: the same mean and deviation
            mean = distribution.mean
            return _shape("lognormal", mean, mean, (0.0, _TAILS * mean), least)
    raise WorkloadError(f"a {type(distribution).__name__} has no counterpart in inference-perf's distributions")


def shape_from(values: Sequence[float], least: int) -> Shape:
    """Return the lognormal of the values' own mean and deviation, within their range; of equal ones, that value."""
    found = np.asarray(values, float)
    low, high, mean, std = (float(one) for one in (found.min(), found.max(), found.mean(), found.std()))
    if low == high or mean <= 0:
        return _shape("fixed", mean, 0.0, (low, high), least)
    return _shape("lognormal", mean, std, (low, high), least)


def _shape(kind: str, mean: float, std: float, bounds: tuple[float, float], least: int) -> Shape:
    """Return what the tool's YAML holds; its bounds are whole numbers."""
    low, high = bounds
    smallest = max(math.floor(low), least)
    return {
        "type": kind,
        "min": smallest,
        "max": max(math.ceil(high), smallest),
        "mean": float(mean),
        "std_dev": float(std),
    }
