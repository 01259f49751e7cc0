"""What `--check` demands of a scenario's result: errors of published cells, ranges, and figures of variants."""

import math
from typing import Annotated, Literal

from msgspec import Meta

from sim.workload_spec import Positive, Sessions, Spec

BASE_VARIANT = "as it is"


class CellCheck(Spec, frozen=True):
    """A bound on |predicted / published - 1| of one metric at some loads (all rows if none are named)."""

    metric: Literal["ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "requests_per_s"]
    error_max: Positive
    sessions: list[Sessions] = []


class FigureCheck(Spec, frozen=True):
    """One figure of one variant at one load: against a published one, or within a range; or its ratio to another's.

    `metric` is a column of a point, or knee_sessions or slo_sessions. Without `sessions` the largest load counts.
    """

    metric: str
    variant: str = BASE_VARIANT
    sessions: Sessions | None = None
    over: str | None = None  # divided by the same metric of this variant,
    over_sessions: Sessions | None = None  # at this load, if it is another
    published: float | None = None
    error_max: Positive | None = None  # of simulated / published - 1
    low: float = -math.inf
    high: float = math.inf
    what: str = ""  # in words

    def __post_init__(self) -> None:
        if (self.published is None) != (self.error_max is None):
            raise ValueError("published and error_max need each other")
        if self.published is None and self.low == -math.inf and self.high == math.inf:
            raise ValueError("needs published with error_max, low or high, or there is nothing to check")
        if self.low > self.high:
            raise ValueError(f"high {self.high:g} must be at least low {self.low:g}")
        if self.over_sessions is not None and self.over is None:
            raise ValueError(f"over_sessions needs over, such as {BASE_VARIANT!r}")


class ChecksSpec(Spec, frozen=True):
    """What `--check` demands; a failed one makes the command exit with 1."""

    median_error_max: Positive | None = None
    cells: list[CellCheck] = []
    knee_sessions: Annotated[list[Sessions], Meta(min_length=2, max_length=2)] | None = None  # low, high
    slo_sessions: Annotated[list[Sessions], Meta(min_length=2, max_length=2)] | None = None
    ttft_p50_slope_s: Annotated[list[Positive], Meta(min_length=2, max_length=2)] | None = None
    requests_per_s: Annotated[list[Positive], Meta(min_length=2, max_length=2)] | None = None  # beyond 6 sessions
    figures: list[FigureCheck] = []
