"""Predicted and measured against load: TTFT and throughput; lines are predicted, hollow marks measured."""

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

from calibrate.compare.points import Point
from calibrate.compare.tables import title
from calibrate.validation.e2e_regimes import BELOW
from sim.report.axes import number_axis
from sim.report.style import BLUE, CRIMSON, FAINT, INK, SAGE, SOFT, headings, sheet

_WIDTH_IN = 11.0
_LATENCIES = ((("ttft_p50_s", "ttft_mean_s"), BLUE, "o"), (("ttft_p99_s", "ttft_p95_s", "ttft_p90_s"), CRIMSON, "D"))
_RATES = ((("output_tokens_per_s",), SAGE, "s"), (("requests_per_s",), SAGE, "s"))
_DECADES = 30.0  # times from the lowest load to the highest, from which on the axis is logarithmic
_ROOM = 0.07  # of the axis between two loads, for their labels

Series = tuple[str, str, str]  # metric, colour, marker


def compare_figure(points: Sequence[Point], heading: str, subtitle: str, provenance: str) -> Figure:
    """Return the chart, a mark a load point."""
    ordered = sorted(points, key=lambda point: point.sent.arrivals.level)
    with sheet(provenance, width_in=_WIDTH_IN) as figure:
        parts = figure.subplot_mosaic([["head", "head"], ["left", "right"]], height_ratios=(0.001, 1))
        head, left, right = parts["head"], parts["left"], parts["right"]
        head.set_axis_off()
        latencies = [one for names, *look in _LATENCIES if (one := _series(ordered, names, *look)) is not None]
        rates = [one for names, *look in _RATES if (one := _series(ordered, names, *look)) is not None]
        _draw(left, ordered, latencies, "seconds (log scale)")
        _draw(right, ordered, rates[:1], title(rates[0][0]) if rates else "")
        left.set_title("TTFT", loc="left", size=10)
        right.set_title("throughput", loc="left", size=10)
        figure.legend(handles=_keys([*latencies, *rates[:1]], ordered), loc="outside right upper")
        headings(head, head, heading, subtitle)
    return figure


def _series(points: Sequence[Point], names: Sequence[str], color: str, marker: str) -> Series | None:
    known = (name for name in names if any(point.measured.get(name, 0.0) > 0 for point in points))
    metric = next(known, None)
    return None if metric is None else (metric, color, marker)


def _draw(axes: Axes, points: Sequence[Point], series: Sequence[Series], label: str) -> None:
    drawn: list[float] = []
    for metric, color, marker in series:
        both = [(p.sent.arrivals.level, p.predicted.get(metric), p.measured.get(metric)) for p in points]
        lines = [(x, y) for x, y, _ in both if y is not None and y > 0]
        marks = [(x, y) for x, _, y in both if y is not None and y > 0]
        axes.plot(*_columns(lines), color=color, marker=marker, markersize=4, linewidth=1.8, zorder=3)
        axes.plot(
            *_columns(marks), color=color, linestyle="none", marker=marker, markersize=8, markerfacecolor="none",
            markeredgewidth=1.5, zorder=4,
        )  # fmt: skip
        drawn += [y for _, y in (*lines, *marks)]
    levels = sorted({point.sent.arrivals.level for point in points})
    unit = ", ".join(dict.fromkeys(point.sent.arrivals.unit for point in points))
    axes.set_xlabel(unit)
    if _is_geometric(levels):
        axes.set_xscale("log")
        axes.set_xlabel(f"{unit} (log scale)")
        axes.set_xticks(levels, [f"{level:.4g}" for level in levels])
        axes.minorticks_off()
    elif all(level == round(level) for level in levels):
        number_axis(axes, levels, unit)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6))
    if drawn and series and series[0][0].endswith("_s") and not series[0][0].endswith("per_s"):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.minorticks_off()
    elif drawn:
        axes.set_ylim(bottom=0)
    beyond = [point.sent.arrivals.level for point in points if point.regime.name != BELOW]
    if beyond:
        axes.axvline(min(beyond), color=FAINT, linestyle=(0, (5, 3)), linewidth=1, zorder=1)
    axes.set_ylabel(label)


def _is_geometric(levels: Sequence[float]) -> bool:
    """Whether loads have room on a logarithmic axis, and need it."""
    if levels[0] <= 0 or levels[-1] < _DECADES * levels[0]:
        return False
    logs = [math.log(level) for level in levels]
    return min(after - before for before, after in pairwise(logs)) > _ROOM * (logs[-1] - logs[0])


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _keys(series: Sequence[Series], points: Sequence[Point]) -> list[Line2D]:
    keys = [
        Line2D([], [], color=color, marker=marker, markersize=4, label=title(metric))
        for metric, color, marker in series
    ]
    keys.append(Line2D([], [], color=INK, linewidth=1.8, label="predicted"))
    keys.append(
        Line2D([], [], color=INK, linestyle="none", marker="o", markersize=8, markerfacecolor="none", label="measured")
    )
    if any(point.regime.name != BELOW for point in points):
        keys.append(Line2D([], [], color=SOFT, linestyle=(0, (5, 3)), linewidth=1, label="knee reached"))
    return keys
