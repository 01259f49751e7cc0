"""Sessions drawn before the run, so that drawing them and simulating them can be timed apart."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import numpy as np

from workloads import AgentWorkload, Arrivals, Normal, Session


@dataclass(frozen=True, slots=True)
class DrawnSessions(AgentWorkload):
    """A workload that hands out what was drawn before, by name."""

    by_name: dict[str, Session] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: AgentWorkload, names: list[str]) -> "DrawnSessions":
        """Draw one session a name, each from a stream of its own."""
        drawn = {name: workload.session(name, np.random.default_rng([1, i])) for i, name in enumerate(names)}
        return cls(**{one.name: getattr(workload, one.name) for one in fields(workload)}, by_name=drawn)

    def session(self, name: str, rng: np.random.Generator) -> Session:
        """Return the session of this name; the generator is left alone."""
        del rng
        return self.by_name[name]


@dataclass(frozen=True, slots=True)
class FirstArrivals:
    """The first `count` of arrivals that would go on for ever."""

    arrivals: Arrivals
    count: int

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield arrival times."""
        return itertools.islice(self.arrivals.times(rng), self.count)


@dataclass(frozen=True, slots=True)
class Clipped:
    """A normal distribution whose values are cut to a range that is symmetric about its mean."""

    normal: Normal
    low: float
    high: float

    @property
    def mean(self) -> float:
        """The middle."""
        return self.normal.mean

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value."""
        return min(max(self.normal.draw(rng), self.low), self.high)
