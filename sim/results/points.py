"""Plain rows as the charts and tables read them: what a metric is called, and what counts as a number.

A row is a mapping from metric names to values: a simulated point or a published one. A value that is missing,
None, NaN, infinite or no number at all means "not known" and reads as NaN: nobody draws or averages it.
"""

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

from sim.units import seconds

Row = Mapping[str, Any]
NAN = math.nan

METRIC_TITLES = {
    "ttft_p50_s": "TTFT p50",
    "ttft_p90_s": "TTFT p90",
    "ttft_p95_s": "TTFT p95",
    "ttft_p99_s": "TTFT p99",
    "tpot_p50_s": "TPOT p50",
    "itl_p99_s": "ITL p99",
    "e2e_p50_s": "E2E p50",
    "requests_per_s": "requests/s",
    "output_tokens_per_s": "output tokens/s",
    "prefix_hit_rate": "prefix hit rate",
    "preemptions": "preemptions",
    "reprefilled_tokens": "re-prefilled tokens",
    "kv_usage_peak": "peak KV usage",
}
DURATIONS = ("ttft", "tpot", "itl", "e2e", "duration")


class Interval(NamedTuple):
    """The 95 % interval of a metric over seeds; NaN where not known."""

    low: float
    high: float


def number(row: Row, key: str) -> float:
    """Return a metric as a finite float, or NaN if it is not known."""
    value = row.get(key)
    if not isinstance(value, Real) or isinstance(value, bool):
        return NAN
    return float(value) if math.isfinite(value) else NAN


def interval(row: Row, key: str) -> Interval:
    """Return `<key>_low` and `<key>_high`, or NaN twice unless both are known and in order."""
    low, high = number(row, f"{key}_low"), number(row, f"{key}_high")
    return Interval(low, high) if low <= high else Interval(NAN, NAN)


def by_sessions(rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose session count is known and positive, in ascending order of it."""
    return sorted((row for row in rows if number(row, "sessions") > 0), key=lambda row: number(row, "sessions"))


def is_duration(metric: str) -> bool:
    """Tell whether a metric is measured in seconds (and not per second)."""
    return metric.startswith(DURATIONS)


def metric_title(metric: str) -> str:
    """Return what people call a metric: `TTFT p99` for `ttft_p99_s`."""
    return METRIC_TITLES.get(metric, metric)


def humane(value: float, metric: str) -> str:
    """Format a value with its unit: `388 ms`, `1,200 s`, `1.36`; `-` if not known."""
    if math.isnan(value):
        return "-"
    if is_duration(metric):
        return seconds(value) if value < 999.5 else f"{value:,.0f} s"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
