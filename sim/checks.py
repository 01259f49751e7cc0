"""What a scenario's `checks` demand of its result; each failure is one line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sim.check_spec import CellCheck
from sim.figures import figures_of
from sim.results.published_errors import CellError, cell_errors, median_error
from sim.run import Result
from sim.scenario import PublishedRow, Scenario

PLATEAU_FROM_SESSIONS = 6


def published_rows(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the published figures as plain rows, what is missing left out."""
    rows = scenario.published.rows if scenario.published is not None else []
    fields = PublishedRow.__struct_fields__
    return [{name: getattr(row, name) for name in fields if getattr(row, name) is not None} for row in rows]


def failures(result: Result, variants: Mapping[str, Result] = {}) -> list[str]:
    """Return what failed, in words; an empty list is a pass. Figures of variants that were not run are left out."""
    of_figures = (figure.failure for figure in figures_of(result, variants) if not figure.met)
    return [*_failures(result), *of_figures]


def _failures(result: Result) -> Iterator[str]:
    scenario = result.deployment.scenario
    checks, published = scenario.checks, published_rows(scenario)
    overall = median_error(result.points, published)
    if checks.median_error_max is not None and not (overall is not None and overall <= checks.median_error_max):
        shown = "unknown" if overall is None else f"{overall:.1%}"
        yield f"median |error| over the published cells is {shown}, allowed {checks.median_error_max:.0%}"
    cells = cell_errors(result.points, published)
    for check in checks.cells:
        yield from _cell_failures(cells, check)
    yield from _outside("knee_sessions", result.knee.sessions, checks.knee_sessions)
    yield from _outside("slo_sessions", result.slo_sessions, checks.slo_sessions)
    yield from _outside("TTFT p50 added per session, in s,", _slope_s(result), checks.ttft_p50_slope_s)
    plateau = [point for point in result.points if point["sessions"] >= PLATEAU_FROM_SESSIONS]
    if checks.requests_per_s is not None and not plateau:
        yield f"requests_per_s: no load of {PLATEAU_FROM_SESSIONS} sessions or more was simulated"
    for point in plateau:
        name = f"requests_per_s at {point['sessions']:g} sessions"
        yield from _outside(name, point["requests_per_s"], checks.requests_per_s)


def _slope_s(result: Result) -> float | None:
    if len(result.points) < 2:
        return None
    first, last = result.points[0], result.points[-1]
    return (last["ttft_p50_s"] - first["ttft_p50_s"]) / (last["sessions"] - first["sessions"])


def _cell_failures(cells: Sequence[CellError], check: CellCheck) -> Iterator[str]:
    found = {int(cell.sessions): cell.error for cell in cells if cell.metric == check.metric}
    for sessions in check.sessions or sorted(found):
        if sessions not in found:
            yield f"{check.metric} at {sessions:g} sessions was not simulated or not published"
        elif not abs(found[sessions]) <= check.error_max:
            off = f"{found[sessions]:+.1%}, allowed {check.error_max:.0%}"
            yield f"{check.metric} at {sessions:g} sessions is off by {off}"


def _outside(name: str, value: float | None, bounds: Sequence[float] | None) -> Iterator[str]:
    if bounds is not None and (value is None or not bounds[0] <= value <= bounds[1]):
        shown = "none" if value is None else f"{value:.4g}"
        yield f"{name} is {shown}, expected {bounds[0]:g} to {bounds[1]:g}"
