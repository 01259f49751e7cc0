"""Distributions made of others: mixtures by weight, bounds that cut tails off, and quantiles read from a sample."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from workloads.distributions import Distribution
from workloads.errors import WorkloadError

_TRIES = 100
_MEAN_OF = 20_000  # draws, where a mean has no closed form


@dataclass(frozen=True, slots=True)
class Mixture:
    """One of several distributions each time, by weight; weights need not sum to 1."""

    weights: tuple[float, ...]
    parts: tuple[Distribution, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.parts) or not self.parts:
            raise WorkloadError(f"a mixture of {len(self.parts)} parts needs as many weights, not {len(self.weights)}")
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.weights) or not sum(self.weights) > 0:
            raise WorkloadError(f"weights {list(self.weights)} must be finite, at least 0, and not all 0")

    @property
    def mean(self) -> float:
        """The weighted mean of the parts'."""
        total = sum(self.weights)
        return sum(weight * part.mean for weight, part in zip(self.weights, self.parts, strict=True)) / total

    def draw(self, rng: np.random.Generator) -> float:
        """Choose a part, then return one value of it."""
        sums = list(accumulate(self.weights))
        return self.parts[min(bisect_right(sums, rng.random() * sums[-1]), len(sums) - 1)].draw(rng)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A distribution without what lies outside `low` to `high`: such draws are drawn again, not moved to the bound."""

    of: Distribution
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise WorkloadError(f"bounds {self.low:g} to {self.high:g} must ascend from at least 0")

    @property
    def mean(self) -> float:
        """The mean of many draws."""
        return _drawn_mean(self)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value; the nearer bound where nearly nothing lies between them."""
        value = 0.0
        for _ in range(_TRIES):
            value = self.of.draw(rng)
            if self.low <= value <= self.high:
                return value
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """By quantiles: `shares[i]` of all values are at most `values[i]`; in between evenly in the logarithm of 1 + value.

    Shares ascend from 0 to 1. Tails of lengths and pauses are nearly straight in the logarithm, so few points do.
    """

    shares: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.values) or len(self.shares) < 2:
            raise WorkloadError(f"{len(self.shares)} shares and {len(self.values)} values must be as many, at least 2")
        if self.shares[0] != 0 or self.shares[-1] != 1 or any(b <= a for a, b in pairwise(self.shares)):
            raise WorkloadError(f"shares {list(self.shares)} must ascend from 0 to 1")
        ascend = all(a <= b for a, b in pairwise(self.values))
        if not ascend or self.values[0] < 0 or not math.isfinite(self.values[-1]):
            raise WorkloadError(f"values {list(self.values)} must ascend from at least 0")

    @property
    def mean(self) -> float:
        """The sum over the stretches between two quantiles."""
        points = list(zip(self.shares, self.values, strict=True))
        return sum((s2 - s1) * _log_mean(v1, v2) for (s1, v1), (s2, v2) in pairwise(points))

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value."""
        share = float(rng.random())
        right = min(bisect_right(self.shares, share), len(self.shares) - 1)
        left = right - 1
        part = (share - self.shares[left]) / (self.shares[right] - self.shares[left])
        low, high = math.log1p(self.values[left]), math.log1p(self.values[right])
        return max(math.expm1(low + part * (high - low)), 0.0)


def _log_mean(low: float, high: float) -> float:
    if high - low < 1e-9 * (1 + low):
        return low
    return (high - low) / (math.log1p(high) - math.log1p(low)) - 1


@lru_cache(maxsize=256)
def _drawn_mean(of: Bounded) -> float:
    rng = np.random.default_rng(0)
    return sum(of.draw(rng) for _ in range(_MEAN_OF)) / _MEAN_OF
