"""Axes of the charts: session counts on a square-root scale, durations on a log scale with humane ticks.

The square root gives the counts around a knee (10, 12, 14) room without squeezing what lies beyond it, as a
linear axis up to 48 would, and is all but linear over a short range.
"""

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from sim.report.style import LABEL_PT, LEFT_IN, RIGHT_IN, WIDTH_IN
from sim.results.points import humane, is_duration, metric_title

AXES_WIDTH_IN = WIDTH_IN - LEFT_IN - RIGHT_IN
TICK_GAP_IN = 0.25


def signed_sqrt(value: ArrayLike) -> NDArray[np.float64]:
    """Return the square root, mirrored below zero so that the scale can be inverted everywhere."""
    number = np.asarray(value, dtype=np.float64)
    return np.asarray(np.copysign(np.sqrt(np.abs(number)), number))


def signed_square(value: ArrayLike) -> NDArray[np.float64]:
    """Return the inverse of `signed_sqrt`."""
    number = np.asarray(value, dtype=np.float64)
    return np.asarray(np.copysign(number**2, number))


def session_axis(axes: Axes, counts: Collection[float], *, label_in: float, knees: Collection[float] = ()) -> None:
    """Set the x axis to the session counts, leaving `label_in` inches on the right for labels at line ends.

    Ticks stand at real counts, as many as fit, first of all at the ends and at the knees.
    """
    ordered = sorted(set(counts))
    inside = sorted({*ordered, *knees}) or [1, 4]
    ends = signed_sqrt([inside[0], inside[-1]])
    share = min(label_in / AXES_WIDTH_IN, 0.4)
    width = max(float(ends[1] - ends[0]), 0.5) / (1 - share - 0.03)
    left, right = signed_square([ends[0] - 0.03 * width, ends[1] + share * width])
    axes.set_xscale("function", functions=(signed_sqrt, signed_square))
    axes.set_xlim(float(left), float(right))
    shown = _ticks_that_fit(ordered, [count for count in knees if count in ordered], width)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{count:g}" for count in shown]))
    axes.xaxis.set_minor_locator(FixedLocator(ordered) if ordered else NullLocator())
    axes.set_xlabel("concurrent sessions (square-root scale)", size=LABEL_PT, labelpad=6)


def gutter(axes: Axes, last_sessions: float) -> float:
    """Keep gridlines out of the space right of the last session count, where the labels stand.

    Return where it begins, in sessions: just far enough not to cut the last marker.
    """
    left, right = signed_sqrt(axes.get_xlim())
    start = float(signed_square(signed_sqrt(last_sessions) + (right - left) * 0.07 / AXES_WIDTH_IN))
    axes.axvspan(start, axes.get_xlim()[1], facecolor="white", linewidth=0, zorder=0.55, label="gutter")
    return start


def _ticks_that_fit(counts: Sequence[float], keep: Sequence[float], width: float) -> list[float]:
    """Return counts far enough apart to be labelled, the important and the round ones first."""
    wanted = [*counts[:1], *counts[-1:], *keep]
    for base in (100, 10, 5, 2, 1):
        wanted += [count for count in counts if count % base == 0]
    shown: list[float] = []
    for count in dict.fromkeys(wanted):
        gaps_in = [abs(_gap(count, other)) / width * AXES_WIDTH_IN for other in shown]
        if min(gaps_in, default=math.inf) >= TICK_GAP_IN + 0.08 * max(len(f"{count:g}") - 2, 0):
            shown.append(count)
    return sorted(shown)


def _gap(first: float, second: float) -> float:
    return float(signed_sqrt(first) - signed_sqrt(second))


def width_share(axes: Axes, sessions: float) -> float:
    """Return where a session count is, as a share of the axes' width."""
    at = axes.get_xaxis_transform().transform((sessions, 0))
    return float(axes.transAxes.inverted().transform(at)[0])


def value_axis(
    axes: Axes,
    values: Iterable[float],
    metric: str,
    *,
    headroom: float,
    footroom: float = 0.0,
    title: str = "",
) -> None:
    """Set the y axis around the values: log for durations, linear from zero for anything else.

    `headroom` is the share of the height left free at the top, for labels, `footroom` at the bottom of a log
    axis, for what is drawn there on another.
    """
    known = [value for value in values if math.isfinite(value)]
    label = title or metric_title(metric)
    if not is_duration(metric):
        top = max(known, default=1.0) or 1.0
        ticks = [
            float(tick) for tick in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0, top) if 0 <= tick <= top * 1.15
        ]
        axes.set_ylim(0, top / (1 - headroom))
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_major_formatter(FixedFormatter([humane(tick, metric) for tick in ticks]))
        axes.set_ylabel(label, size=LABEL_PT)
        return
    known = [value for value in known if value > 0] or [0.1, 10.0]
    low, high = math.log10(min(known)), math.log10(max(known))
    spare = max(1.0 - (high - low), 0) / 2  # at least one decade, so that noise does not look like a cliff
    low, high = low - spare - 0.12, high + spare + 0.04
    axes.set_yscale("log")
    whole = (high - low) / (1 - headroom - footroom)
    axes.set_ylim(10 ** (low - footroom * whole), 10 ** (high + headroom * whole))
    _duration_ticks(axes, metric, low, high + headroom * whole)
    axes.set_ylabel(f"{label} (log scale)", size=LABEL_PT, y=(1 + footroom) / 2)


def _duration_ticks(axes: Axes, metric: str, low: float, high: float) -> None:
    """Label 1, 2, 5 of each decade between two powers of ten when few are in view, else the decades alone."""
    steps = (1, 2, 5) if high - low < 2.2 else (1, 3) if high - low < 3.2 else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    ticks = [tick for tick in ticks if 10**low <= tick <= 10**high]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FixedFormatter([humane(tick, metric) for tick in ticks]))
    axes.yaxis.set_minor_locator(NullLocator())
