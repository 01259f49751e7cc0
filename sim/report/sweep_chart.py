"""p99 TTFT of every combination of a sweep: colours tell the values of one key apart, dashes those of the others."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.axes import session_axis, value_axis
from sim.report.compare_chart import COLORS, FEW, MARKERS, WIDTH_IN
from sim.report.marks import Look, band, column, curve, drawn_values, has_bands, key_marks
from sim.report.sentences import step_times
from sim.report.style import SOFT, headings, sheet
from sim.report.sweep_rows import Swept
from sim.results.points import by_sessions, humane
from sim.run import Result
from sim.sweep.combinations import short_names, shown

METRIC = "ttft_p99_s"
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
MOST_CURVES = 24  # what more there is, the table and the CSV have


def sweep_chart(swept: Sequence[Swept]) -> Figure | None:
    """Return the chart, a curve a combination; None where there is no point to draw."""
    found = [(one, one.result) for one in swept if one.result is not None and one.result.points]
    if not found:
        return None
    varied, values = _varied([one for one, _ in found])
    results = [result for _, result in found[:MOST_CURVES]]
    provenance = "; ".join(dict.fromkeys(step_times(result.deployment) for result in results))
    with sheet(provenance, width_in=WIDTH_IN) as figure:
        axes = figure.add_subplot()
        handles = _draw(axes, results, values)
        key = axes.legend(
            handles=handles,
            title=fill(", ".join(varied), 44),
            loc="upper left",
            bbox_to_anchor=(1, 1),
            alignment="left",
        )
        key.get_title().set(color=SOFT, weight="bold", size=8)
        told = [] if "scenario" in varied else [found[0][0].combination.scenario]
        if len(results) < len(found):
            told.append(f"the first {len(results)} of {len(found)} combinations")
        headings(axes, axes, f"TTFT p99 by {' and '.join(varied)}", "; ".join(told))
    return figure


def _draw(axes: Axes, results: Sequence[Result], values: Sequence[Sequence[str]]) -> list[Any]:
    """Draw axes, curves and the limit that all have in common; return what belongs in the legend."""
    points = [point for result in results for point in result.points]
    knees = [result.knee.sessions for result in results if result.knee.sessions is not None]
    units = dict.fromkeys(result.load_unit for result in results)
    session_axis(axes, column(points, "sessions").tolist(), " / ".join(units), knees=knees)
    limits = {result.deployment.slo.ttft_p99_s for result in results}
    limit = limits.pop() if len(limits) == 1 else None
    value_axis(axes, drawn_values(points, METRIC), METRIC, limit=limit)
    few = len(results) <= FEW
    handles: list[Any] = [
        _curve(axes, result, look, ", ".join(row), few=few)
        for result, look, row in zip(results, looks(values), values, strict=False)
    ]
    if limit is not None:
        text = f"limit {humane(limit, METRIC)}"
        handles.append(axes.axhline(limit, color=SOFT, linestyle=(0, (1, 2)), linewidth=1.5, label=text))
    return handles + key_marks(bands=few and has_bands(points, [METRIC]), published=False)[1:]


def _varied(swept: Sequence[Swept]) -> tuple[list[str], list[list[str]]]:
    """Return the names of what was varied, and the values of each combination."""
    scenarios = [one.combination.scenario for one in swept]
    names = short_names(swept[0].combination.settings)
    several = len(set(scenarios)) > 1 or not names
    values = [[shown(one.combination.settings[key]) for key in names] for one in swept]
    if not several:
        return list(names.values()), values
    return ["scenario", *names.values()], [[scenario, *row] for scenario, row in zip(scenarios, values, strict=True)]


def looks(values: Sequence[Sequence[str]]) -> list[Look]:
    """Return one look a combination: all that share a value of the first key, or of all the others, look alike in that.

    Dashes tell fewer apart than colours do, so they go to the side with fewer values.
    """
    first = list(dict.fromkeys(row[0] for row in values))
    others = list(dict.fromkeys(tuple(row[1:]) for row in values))
    made = []
    for row in values:
        places = first.index(row[0]), others.index(tuple(row[1:]))
        color, dashes = places if len(others) <= len(DASHES) else places[::-1]
        turn = dashes + color // len(COLORS)
        width = 2 if len(values) <= FEW else 1.5
        made.append(Look(COLORS[color % len(COLORS)], MARKERS[color % len(MARKERS)], width, DASHES[turn % len(DASHES)]))
    return made


def _curve(axes: Axes, result: Result, look: Look, name: str, *, few: bool) -> Any:
    """Draw one combination; where there are few, with its interval and a line at its knee."""
    rows, knee = by_sessions(result.points), result.knee.sessions
    if few:
        band(axes, rows, METRIC, look)
        if knee is not None:
            axes.axvline(knee, color=look.color, linestyle=(0, (5, 3)), linewidth=1, label=f"{name} knee")
    return curve(axes, rows, METRIC, look, fill(name if knee is None else f"{name}: knee {knee}", 44))
