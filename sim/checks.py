"""What a scenario's `checks` demand of its result; each failure is one line."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from sim.run import Result
from sim.scenario import CellCheck, ChecksSpec, PublishedRow, Scenario

PUBLISHED_METRICS = ("ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "requests_per_s")
PLATEAU_FROM_SESSIONS = 6


def published_rows(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the published figures as plain rows, what is missing left out."""
    rows = scenario.published.rows if scenario.published is not None else []
    fields = PublishedRow.__struct_fields__
    return [{name: getattr(row, name) for name in fields if getattr(row, name) is not None} for row in rows]


def errors(result: Result, metric: str, sessions: Sequence[int] = ()) -> dict[int, float]:
    """Return predicted / published - 1 by session count, of the rows asked for that were simulated."""
    simulated = {point["sessions"]: point for point in result.points}
    return {
        row["sessions"]: simulated[row["sessions"]][metric] / row[metric] - 1
        for row in published_rows(result.deployment.scenario)
        if metric in row and row["sessions"] in simulated and (not sessions or row["sessions"] in sessions)
    }


def median_error(result: Result) -> float | None:
    """Return the median |error| over all published cells, or None where nothing was published."""
    found = [abs(error) for metric in PUBLISHED_METRICS for error in errors(result, metric).values()]
    return median(found) if found else None


def failures(result: Result) -> list[str]:
    """Return what failed, in words; an empty list is a pass."""
    return list(_failures(result, result.deployment.scenario.checks))


def _failures(result: Result, checks: ChecksSpec) -> Iterator[str]:
    overall = median_error(result)
    if checks.median_error_max is not None:
        if overall is None or not overall <= checks.median_error_max:
            shown = "unknown" if overall is None else f"{overall:.1%}"
            yield f"median |error| over the published cells is {shown}, allowed {checks.median_error_max:.0%}"
    for cell in checks.cells:
        yield from _cell_failures(result, cell)
    yield from _outside("knee_sessions", result.knee.sessions, checks.knee_sessions)
    yield from _outside("slo_sessions", result.slo_sessions, checks.slo_sessions)
    first, last = result.points[0], result.points[-1]
    if checks.ttft_p50_slope_s is not None and first is not last:
        slope = (last["ttft_p50_s"] - first["ttft_p50_s"]) / (last["sessions"] - first["sessions"])
        yield from _outside("TTFT p50 added per session, s,", slope, checks.ttft_p50_slope_s)
    if checks.requests_per_s is not None:
        for point in result.points:
            if point["sessions"] >= PLATEAU_FROM_SESSIONS:
                name = f"requests_per_s at {point['sessions']:g} sessions"
                yield from _outside(name, point["requests_per_s"], checks.requests_per_s)


def _cell_failures(result: Result, check: CellCheck) -> Iterator[str]:
    found = errors(result, check.metric, check.sessions)
    for sessions, error in found.items():
        if not abs(error) <= check.error_max:
            yield f"{check.metric} at {sessions} sessions is off by {error:+.1%}, allowed {check.error_max:.0%}"
    for sessions in check.sessions:
        if sessions not in found:
            yield f"{check.metric} at {sessions} sessions was not simulated or not published"


def _outside(name: str, value: float | None, bounds: Sequence[float] | None) -> Iterator[str]:
    if bounds is not None and (value is None or not bounds[0] <= value <= bounds[1]):
        shown = "none" if value is None else f"{value:.4g}"
        yield f"{name} is {shown}, expected {bounds[0]:g} to {bounds[1]:g}"
