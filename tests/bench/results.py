"""What the suite found: numbers with their spread, as they go into tables and JSON."""

from statistics import median
from typing import Self

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """Repeated measurements of one number, in seconds."""

    best: float
    median: float
    worst: float

    @classmethod
    def of(cls, values: list[float]) -> Self:
        """Sum up the values."""
        return cls(min(values), median(values), max(values))


class CaseResult(msgspec.Struct, frozen=True):
    """One case. CPU seconds."""

    name: str
    requests: int
    output_tokens: int
    steps: int
    build_s: Spread
    simulate_s: Spread
    metrics_s: Spread
    whole_s: Spread
    peak_bytes: int
    plain_loop_s: Spread | None  # the same tokens
    plain_engine_s: Spread | None  # the same results, bit for bit
    times: str  # hash of all times; empty where nothing was compared

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens a CPU second of simulating."""
        return self.output_tokens / self.simulate_s.best

    @property
    def requests_per_s(self) -> float:
        """Requests a CPU second of simulating."""
        return self.requests / self.simulate_s.best

    def times_faster(self, reference: Spread | None) -> float | None:
        """Return how many times longer the reference took to simulate."""
        return None if reference is None else reference.best / self.simulate_s.best


class CommandResult(msgspec.Struct, frozen=True):
    """One command, its children included."""

    name: str
    cpu_s: Spread
    wall_s: Spread


class Target(msgspec.Struct, frozen=True):
    """A promise and what became of it."""

    name: str
    value: float | None  # None = not measured this time
    limit: float
    at_most: bool
    unit: str

    @property
    def met(self) -> bool | None:
        """Whether it was kept; None if nobody looked."""
        if self.value is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit


class Machine(msgspec.Struct, frozen=True):
    """Where and on what it was measured."""

    date: str
    commit: str
    processor: str
    cores: int
    busy_cores: float  # load average when it began
    python: str
    numpy: str
    compiled: bool  # the scheduler is a binary module


class Outcome(msgspec.Struct, frozen=True):
    """A run of the suite."""

    machine: Machine
    scale: float
    drawn_trace: bool  # the shared trace was not there
    cases: list[CaseResult]
    commands: list[CommandResult]
    targets: list[Target]
