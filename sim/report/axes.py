"""Axes of the charts: session counts on a square-root scale, durations on a log scale with humane ticks.

The square root gives the counts around a knee (10, 12, 14) room without squeezing what lies beyond it, as a
linear axis up to 48 would, and is all but linear over a short range.
"""

import math
from collections.abc import Collection, Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator

from sim.report.style import FAINT
from sim.results.points import humane, is_duration, metric_title


def session_axis(axes: Axes, counts: Collection[float], unit: str, *, knees: Collection[float] = ()) -> None:
    """Set the x axis to the session counts; all have a tick, as many as fit a label, ends and knees first."""
    number_axis(axes, counts, "concurrent sessions" if unit == "sessions" else unit, first_shown=knees)


def number_axis(axes: Axes, counts: Collection[float], name: str, *, first_shown: Collection[float] = ()) -> None:
    """Set the x axis to numbers from zero up, on a square-root scale; those first shown keep their label."""
    inside = sorted({*counts, *first_shown}) or [1.0]
    first, last = math.sqrt(inside[0]), math.sqrt(inside[-1])
    pad = 0.03 * (last - first) or 0.5
    axes.set_xlim(max(first - pad, 0) ** 2, (last + pad) ** 2)
    axes.set_xscale("function", functions=(np.sqrt, np.square))
    ordered = sorted(inside, key=lambda count: (count % 10 > 0, count % 5 > 0, count % 2 > 0, count))
    gap = (0.02 + 0.01 * len(f"{inside[-1]:g}")) * (last - first)
    shown: list[float] = []
    for count in dict.fromkeys([inside[0], inside[-1], *sorted(first_shown), *ordered]):
        if all(abs(math.sqrt(count) - math.sqrt(other)) >= gap for other in shown):
            shown.append(count)
    shown.sort()
    axes.set_xticks(shown, [f"{count:g}" for count in shown])
    axes.set_xticks(inside, minor=True)
    axes.set_xlabel(f"{name} (square-root scale)")


def value_axis(
    axes: Axes, values: Iterable[float], metric: str, *, limit: float | None = None, title: str = ""
) -> None:
    """Set the y axis around the values and a limit: log for durations, linear from zero for anything else.

    The log axis spans at least a decade, so that noise does not look like a cliff. If no value is known, say so:
    ticks would mean nothing.
    """
    known = [value for value in values if value > 0]
    axes.set_ylabel((title or metric_title(metric)) + (" (log scale)" if is_duration(metric) else ""))
    if not known:
        axes.set_yticks([])
        axes.text(0.02, 0.4, "no completed requests to draw", transform=axes.transAxes, color=FAINT)
        return
    known += [limit] if limit is not None else []
    if is_duration(metric):
        spare = max(math.sqrt(10 * min(known) / max(known)), 1)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.yaxis.minorticks_off()
        low, high = min(known) / spare, max(known) * spare
        axes.set_ylim(low / (high / low) ** 0.04, high * (high / low) ** 0.14)
    else:
        axes.set_ylim(0, 1.15 * max(known))
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda value, _: humane(value, metric))
