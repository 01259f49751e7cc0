"""Marks for values: a simulated curve with its interval, a published curve, and the key that tells them apart."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from sim.report.style import SOFT
from sim.results.points import NAN, Row, interval, is_duration, number

LABEL_ROW = 0.065  # of the axes' height, for a line of text
PUBLISHED: dict[str, Any] = {
    "markerfacecolor": "white",
    "markeredgewidth": 1.3,
    "linewidth": 1.1,
    "linestyle": (0, (4, 2.5)),
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one curve is drawn."""

    color: str
    marker: str
    width: float = 2
    dashes: Any = "solid"  # a line style of matplotlib


class NamedValue(NamedTuple):
    """A height on the value axis, what to write beside it, and in which colour."""

    value: float
    text: str
    color: str


def column(rows: Iterable[Row], key: str) -> NDArray[np.float64]:
    """Return one metric of every row; NaN where not known, and where a duration is not positive."""
    values = np.array([number(row, key) for row in rows], dtype=np.float64)
    return np.where(values > 0, values, NAN) if is_duration(key) else values


def curve(axes: Axes, rows: Sequence[Row], metric: str, look: Look, label: str, *, over: str = "sessions") -> Line2D:
    """Draw a simulated curve over session counts or another number; gaps where a value is not known."""
    (line,) = axes.plot(
        column(rows, over),
        column(rows, metric),
        color=look.color,
        marker=look.marker,
        markersize=5.5 if len(rows) <= 15 else 3,
        linewidth=look.width,
        linestyle=look.dashes,
        markeredgecolor="white",
        markeredgewidth=0.7,
        label=label,
        zorder=5,
    )
    return line


def has_bands(rows: Sequence[Row], metrics: Iterable[str]) -> bool:
    """Tell whether the interval of any metric is known at two points: fewer make no band."""
    return any(sum(not math.isnan(interval(row, metric).low) for row in rows) > 1 for metric in metrics)


def band(axes: Axes, rows: Sequence[Row], metric: str, look: Look, *, over: str = "sessions") -> None:
    """Fill the 95 % interval over seeds on a set axis; gaps where it or the value is not known."""
    x, y = column(rows, over), column(rows, metric)
    low, high = np.array([interval(row, metric) for row in rows], dtype=np.float64).reshape(-1, 2).T
    known = np.isfinite(y + low + high).tolist()
    if not any(known):
        return
    low = np.maximum(low, axes.get_ylim()[0])  # a log axis has no place for zero
    axes.fill_between(x, low, high, where=known, color=look.color, alpha=0.14, linewidth=0, zorder=3)


def published_curve(axes: Axes, rows: Sequence[Row], metric: str, look: Look, size: float = 6.5) -> None:
    """Draw a published curve dashed with hollow markers, over the rows that have the metric."""
    have = [row for row in rows if number(row, metric) > 0]
    if not have:
        return
    settings = PUBLISHED if len(have) > 2 else PUBLISHED | {"linestyle": "none"}  # two points show no course
    axes.plot(
        column(have, "sessions"),
        column(have, metric),
        color=look.color,
        marker=look.marker,
        markersize=size,
        label=f"{metric} published",
        zorder=4,
        **settings,
    )


def drawn_values(rows: Iterable[Row], metric: str) -> list[float]:
    """Return every value that rows put on the axis: the metric and its interval's upper end."""
    return [value for row in rows for value in (number(row, metric), interval(row, metric).high)]


def key_marks(*, bands: bool, published: bool) -> list[Artist]:
    """Return what to tell in a legend of the kinds of marks drawn."""
    marks: list[Artist] = [Line2D([], [], color=SOFT, marker="o", linewidth=2, markersize=5, label="simulated")]
    if bands:
        marks.append(Patch(color=SOFT, alpha=0.18, linewidth=0, label="95 % interval over seeds"))
    if published:
        marks.append(Line2D([], [], color=SOFT, marker="o", label="published measurement", **PUBLISHED))
    return marks


def end_labels(axes: Axes, labels: Iterable[NamedValue]) -> None:
    """Write a text to the right of each value, in its colour; from the lowest up, each clear of the one below."""
    free = -math.inf
    to_height = axes.transScale + axes.transLimits
    for value, text, color in sorted(labels):
        height = max(float(to_height.transform((1, value))[1]), free)
        axes.annotate(
            text,
            (1, height),
            xycoords="axes fraction",
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=color,
            weight="bold",
        )
        free = height + LABEL_ROW
