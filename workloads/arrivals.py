"""When sessions begin: arrivals from outside (open loop), or the starts of N clients (closed loop). Seconds.

Arrivals are unbounded and ascending; the run decides when to stop. Randomness comes only from the generator
passed in.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from workloads.errors import WorkloadError


class Arrivals(Protocol):
    """An open loop: sessions begin whatever the server does."""

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield the times at which sessions begin, ascending, for ever."""
        ...


class Start(Protocol):
    """A closed loop's beginning: how long each client waits before its first session."""

    def offsets_s(self, clients: int, rng: np.random.Generator) -> list[float]:
        """Return one offset a client."""
        ...


def _positive(name: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise WorkloadError(f"{name} {value} must be a finite number above 0")


def _not_negative(name: str, value: float) -> None:
    if not math.isfinite(value) or value < 0:
        raise WorkloadError(f"{name} {value} must be a finite number of at least 0")


@dataclass(frozen=True, slots=True)
class Poisson:
    """Memoryless arrivals, `rate_per_s` on average."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield arrival times."""
        now = 0.0
        while True:
            now += float(rng.exponential(1 / self.rate_per_s))
            yield now


@dataclass(frozen=True, slots=True)
class ConstantRate:
    """One arrival every 1 / rate_per_s seconds, the first after one interval."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield arrival times; the generator is left alone."""
        del rng
        for number in itertools.count(1):
            yield number / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Bursts:
    """`burst_size` arrivals together every `interval_s`, the first at 0, each up to `jitter_s` late."""

    burst_size: int
    interval_s: float
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        if self.burst_size < 1:
            raise WorkloadError(f"burst_size {self.burst_size} must be at least 1")
        _positive("interval_s", self.interval_s)
        _not_negative("jitter_s", self.jitter_s)
        if self.jitter_s >= self.interval_s:
            raise WorkloadError(f"jitter_s {self.jitter_s} must be below interval_s {self.interval_s}")

    @property
    def rate_per_s(self) -> float:
        """Arrivals a second on average."""
        return self.burst_size / self.interval_s

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield arrival times."""
        for burst in itertools.count():
            late = np.sort(rng.uniform(0.0, self.jitter_s, self.burst_size))
            yield from (burst * self.interval_s + late).tolist()


@dataclass(frozen=True, slots=True)
class CommonStart:
    """All clients begin together, each up to `jitter_s` late."""

    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        _not_negative("jitter_s", self.jitter_s)

    def offsets_s(self, clients: int, rng: np.random.Generator) -> list[float]:
        """Return each client's offset."""
        late: list[float] = rng.uniform(0.0, self.jitter_s, clients).tolist()
        return late


@dataclass(frozen=True, slots=True)
class StaggeredStart:
    """Clients begin evenly spread over `over_s`."""

    over_s: float

    def __post_init__(self) -> None:
        _not_negative("over_s", self.over_s)

    def offsets_s(self, clients: int, rng: np.random.Generator) -> list[float]:
        """Return each client's offset; the generator is left alone."""
        del rng
        return [client * self.over_s / clients for client in range(clients)]
