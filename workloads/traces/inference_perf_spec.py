"""What inference-perf's configurations have in common: distributions with its defaults, and the stages of its load."""

from pathlib import Path
from typing import Annotated

import msgspec

from workloads.traces.bounded import Bounded, checked, constant
from workloads.traces.json_rows import Row
from workloads.traces.reading import Reading, ReadOptions
from workloads.traces.request import MOST_TOKENS
from workloads.traces.spec_document import spec_document

Value = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Length = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10**15)]


class Distribution(Row, frozen=True, gc=False):
    """One distribution, with inference-perf's defaults."""

    type: str = "normal"
    min: Value = 10
    max: Value = 1024
    mean: Value = 512
    std_dev: Value | None = None
    variance: Value | None = None
    skew: Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)] = 0.0

    def bounded(self, where: str) -> Bounded:
        """Return it, checked; raises WorkloadError."""
        std_dev = self.variance**0.5 if self.variance is not None else 200.0 if self.std_dev is None else self.std_dev
        return checked(where, Bounded(self.type, self.min, self.max, self.mean, std_dev, self.skew))


class Stage(Row, frozen=True, gc=False):
    """One stage of a load: so many at a time, or so many a second; how long or how many."""

    concurrency_level: Annotated[int, msgspec.Meta(ge=1, le=10**6)] | None = None
    num_requests: Count | None = None
    rate: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None  # requests a second
    duration: Annotated[float, msgspec.Meta(ge=0, le=1e8)] | None = None  # seconds


class Load(Row, frozen=True, gc=False):
    """The load of a configuration."""

    stages: Annotated[list[Stage], msgspec.Meta(max_length=10_000)] | None = None
    type: str | None = None


class _Config(Row, frozen=True, gc=False):
    load: Load | None = None


def stages(path: Path) -> list[Stage]:
    """Return the stages of an inference-perf configuration, in order; none where it says none.

    Raises WorkloadError, with the path of the key, for what is wrong.
    """
    load = spec_document(Reading(path, ReadOptions()), _Config).load
    return (load.stages or []) if load else []


def note_stages(reading: Reading) -> None:
    """Tell what load the file asks for: the requests are the same at each stage."""
    found = stages(reading.path)
    levels = [f"{one.concurrency_level}" for one in found if one.concurrency_level]
    rates = [f"{one.rate:g}" for one in found if one.rate]
    if levels:
        reading.note(f"stages ask for {', '.join(levels[:12])} conversations at a time")
    if rates:
        reading.note(f"stages ask for {', '.join(rates[:12])} requests a second")


def length(value: int | Distribution, where: str) -> Bounded:
    """Return a length that is a number or a distribution."""
    return constant(value) if isinstance(value, int) else value.bounded(where)
