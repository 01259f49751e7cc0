"""p99 TTFT of every combination of a sweep: colours tell the values of one key apart, dashes those of the others."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.report.axes import number_axis, session_axis, value_axis
from sim.report.compare_chart import COLORS, FEW, MARKERS, WIDTH_IN
from sim.report.marks import Look, band, column, curve, drawn_values, has_bands, key_marks
from sim.report.sentences import step_times
from sim.report.style import FAINT, SOFT, headings, sheet
from sim.report.sweep_curves import METRIC, PLACE, SweepCurve, SweepCurves, sweep_curves
from sim.report.sweep_rows import Swept
from sim.results.points import humane, metric_title

DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
MOST_CURVES = 24  # what more there is, the table and the CSV have
MOST_MISSING = 6  # likewise, and fewer beside many curves
MOST_LINES = 26  # of the legend
LEGEND_WIDTH = 44  # letters
RING: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 13,
    "markerfacecolor": "none",
    "zorder": 6,
    "clip_on": False,
}


def sweep_chart(swept: Sequence[Swept]) -> Figure | None:
    """Return the chart, a curve a combination; None where there is no point to draw."""
    all_of_it = sweep_curves(swept)
    shown = all_of_it.curves[:MOST_CURVES]
    if not shown:
        return None
    results = [one.result for one in swept if one.result is not None]
    limits = {result.deployment.slo.ttft_p99_s for result in results}
    provenance = "; ".join(dict.fromkeys(step_times(result.deployment) for result in results))
    with sheet(provenance, width_in=WIDTH_IN) as figure:
        axes = figure.add_subplot()
        handles = _draw(axes, all_of_it, shown, limits.pop() if len(limits) == 1 else None)
        key = axes.legend(
            handles=handles,
            title=fill(", ".join(all_of_it.varied), LEGEND_WIDTH),
            loc="upper left",
            bbox_to_anchor=(1, 1),
            alignment="left",
            handlelength=5,  # two of the longest dashes
        )
        key.get_title().set(color=SOFT, weight="bold", size=8)
        told = [] if "scenario" in all_of_it.varied else [swept[0].combination.scenario]
        told += [f"at {all_of_it.load}"] if all_of_it.load else []
        if len(shown) < len(all_of_it.curves):
            told.append(f"the first {len(shown)} of {len(all_of_it.curves)} curves")
        by = all_of_it.varied if all_of_it.key is None else [all_of_it.key, *all_of_it.varied]
        headings(axes, axes, f"TTFT p99 by {' and '.join(by)}", "; ".join(told))
    return figure


def _draw(axes: Axes, what: SweepCurves, shown: Sequence[SweepCurve], limit: float | None) -> list[Any]:
    """Draw axes, curves and the limit that all have in common; return what belongs in the legend."""
    points = [row for one in shown for row in one.rows]
    places = column(points, PLACE).tolist()
    ringed = [row for one in shown for row in one.ringed]
    if what.key is None:
        session_axis(axes, places, what.axis, knees=column(ringed, PLACE).tolist())
    else:
        number_axis(axes, places, what.axis)
    value_axis(axes, drawn_values(points, METRIC), METRIC, limit=limit)
    few = len(shown) <= FEW
    handles: list[Any] = [
        _curve(axes, one, look, few=few) for one, look in zip(shown, looks([one.values for one in shown]), strict=True)
    ]
    if ringed:
        label = "KV knee" if what.key is None else "past the KV knee"
        handles.append(Line2D([], [], color=SOFT, label=label, **RING))
    if limit is not None:
        text = f"limit {humane(limit, METRIC)}"
        handles.append(axes.axhline(limit, color=SOFT, linestyle=(0, (1, 2)), linewidth=1.5, label=text))
    handles += key_marks(bands=few and has_bands(points, [METRIC]), published=False)[1:]
    named = max(1, min(MOST_MISSING, MOST_LINES - len(handles)))
    more = len(what.missing) - named
    for text in [*what.missing[:named], *([f"and {more} more without a curve"] if more > 0 else [])]:
        handles.append(Line2D([], [], color=FAINT, linestyle="none", marker="x", label=fill(text, LEGEND_WIDTH)))
    return handles


def looks(values: Sequence[Sequence[str]]) -> list[Look]:
    """Return one look a combination: all that share a value of the first key, or of all the others, look alike in that.

    Dashes tell fewer apart than colours do, so they go to the side with fewer values.
    """
    columns = [column for column in zip(*values, strict=True) if len(set(column)) > 1]
    values = list(zip(*columns, strict=True)) or [("",) for _ in values]
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


def _curve(axes: Axes, one: SweepCurve, look: Look, *, few: bool) -> Any:
    """Draw one curve and its rings; where there are few, with its interval."""
    if few:
        band(axes, one.rows, METRIC, look, over=PLACE)
    axes.plot(column(one.ringed, PLACE), column(one.ringed, METRIC), color=look.color, label="knees", **RING)
    name = (", ".join(one.values) or metric_title(METRIC)) + (f": {one.remark}" if one.remark else "")
    line = curve(axes, one.rows, METRIC, look, fill(name, LEGEND_WIDTH), over=PLACE)
    line.set_clip_on(False)  # a key may be zero, where the axis begins
    return line
