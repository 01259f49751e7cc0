"""Distributions for lengths, depths and think times.

Each is a frozen value with a `mean` and a `draw(rng)`; randomness comes only from the generator passed in.
Lengths are drawn with `whole`, which rounds and keeps at least one token.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from workloads.errors import WorkloadError


class Distribution(Protocol):
    """Anything that can be drawn from."""

    @property
    def mean(self) -> float:
        """The expected value."""
        ...

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value, never negative."""
        ...


def _finite(name: str, value: float, *, least: float = 0.0) -> None:
    if not math.isfinite(value) or value < least:
        raise WorkloadError(f"{name} {value} must be a finite number of at least {least:g}")


@dataclass(frozen=True, slots=True)
class Constant:
    """Always `value`."""

    value: float

    def __post_init__(self) -> None:
        _finite("value", self.value)

    @property
    def mean(self) -> float:
        """The value."""
        return self.value

    def draw(self, rng: np.random.Generator) -> float:
        """Return the value; the generator is left alone."""
        del rng
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Between `low` and `high`, all equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _finite("low", self.low)
        _finite("high", self.high, least=self.low)

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value."""
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with the given mean: memoryless think times, Poisson gaps."""

    mean: float

    def __post_init__(self) -> None:
        _finite("mean", self.mean)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value."""
        return float(rng.exponential(self.mean))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lognormal by its median and `sigma` of the logarithm: the usual shape of lengths and human pauses."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        _finite("median", self.median)
        _finite("sigma", self.sigma)

    @property
    def mean(self) -> float:
        """Median times exp(sigma squared over two)."""
        return self.median * math.exp(self.sigma**2 / 2)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value."""
        return float(self.median * np.exp(self.sigma * rng.standard_normal()))


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal with `mean` and `std`, cut to within three standard deviations and at zero."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        _finite("mean", self.mean)
        _finite("std", self.std)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value."""
        deviation = min(max(float(rng.standard_normal()), -3.0), 3.0)
        return max(self.mean + self.std * deviation, 0.0)


def whole(distribution: Distribution, rng: np.random.Generator) -> int:
    """Return one draw as a count of at least 1."""
    return max(round(distribution.draw(rng)), 1)
