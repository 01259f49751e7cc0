"""Marks for values: a simulated curve with its interval, a published curve, and words where there is none."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from sim.report.style import FAINT, HALO, KEY_PT, SOFT
from sim.results.points import NAN, Row, interval, is_duration, number

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Look:
    """How one curve is drawn."""

    color: str
    marker: str
    size_pt: float = 5.5


def column(rows: Sequence[Row], key: str, *, positive: bool = False) -> Floats:
    """Return one metric of every row; NaN where not known, or not positive where a log axis needs it."""
    values = np.array([number(row, key) for row in rows], dtype=np.float64)
    return np.where(values > 0, values, NAN) if positive else values


def intervals(rows: Sequence[Row], key: str) -> tuple[Floats, Floats]:
    """Return the low and the high ends of a metric's intervals."""
    pairs = [interval(row, key) for row in rows]
    return np.array([pair.low for pair in pairs]), np.array([pair.high for pair in pairs])


def has_intervals(rows: Sequence[Row], keys: Iterable[str]) -> bool:
    """Tell whether any metric has a known interval anywhere."""
    return any(not math.isnan(interval(row, key).low) for key in keys for row in rows)


def curve(axes: Axes, rows: Sequence[Row], metric: str, look: Look) -> Line2D:
    """Draw a simulated curve and its interval; gaps where a value is not known."""
    x, y = column(rows, "sessions"), column(rows, metric, positive=is_duration(metric))
    sparse = len(rows) <= 15
    (line,) = axes.plot(
        x,
        y,
        color=look.color,
        marker=look.marker,
        markersize=look.size_pt if sparse else look.size_pt / 2,
        linewidth=2,
        markeredgecolor="white",
        markeredgewidth=0.7 if sparse else 0,
        label=metric,
        zorder=5,
    )
    _band(axes, rows, metric, look)
    return line


def _band(axes: Axes, rows: Sequence[Row], metric: str, look: Look) -> None:
    """Fill the interval; a lone one, with no neighbour to join, becomes a bar."""
    x, y = column(rows, "sessions"), column(rows, metric, positive=True)
    low, high = intervals(rows, metric)
    floor = np.nanmin(y) / 2 if np.isfinite(y).any() else 1e-3  # an interval may reach zero, a log axis cannot
    known = np.isfinite(low) & (high > 0) & np.isfinite(y)
    low, high = np.where(known, np.maximum(low, floor), NAN), np.where(known, np.maximum(high, floor), NAN)
    if not known.any():
        return
    axes.fill_between(x, low, high, where=known.tolist(), color=look.color, alpha=0.14, linewidth=0, zorder=3)
    padded = np.concatenate([[False], known, [False]])
    lone = known & ~padded[:-2] & ~padded[2:]
    if lone.any():
        axes.vlines(x[lone], low[lone], high[lone], color=look.color, alpha=0.35, linewidth=4, zorder=3)


def published_curve(axes: Axes, rows: Sequence[Row], metric: str, look: Look) -> Line2D | None:
    """Draw a published curve dashed with hollow markers, over the rows that have the metric."""
    have = [row for row in rows if number(row, metric) > 0]
    if not have:
        return None
    (line,) = axes.plot(
        column(have, "sessions"),
        column(have, metric),
        color=look.color,
        marker=look.marker,
        markersize=look.size_pt + 1,
        markerfacecolor="white",
        markeredgewidth=1.3,
        linewidth=1.1,
        linestyle=(0, (4, 2.5)) if len(have) > 2 else "none",  # two points show no course
        alpha=0.9,
        label=f"{metric} published",
        zorder=4,
    )
    return line


def drawn_values(rows: Sequence[Row], published: Sequence[Row], metric: str) -> list[float]:
    """Return every value a curve, its interval's upper end and its published counterpart put on the axis."""
    return [
        *column(rows, metric, positive=True),
        *intervals(rows, metric)[1],
        *column(published, metric, positive=True),
    ]


def key_marks(*, published: bool, bands: bool) -> list[Artist]:
    """Return the key: nothing if there is only one kind of mark to tell apart."""
    marks: list[Artist] = []
    if published or bands:
        marks.append(Line2D([], [], color=SOFT, marker="o", linewidth=2, markersize=5, label="simulated"))
    if bands:
        marks.append(Patch(color=SOFT, alpha=0.18, linewidth=0, label="95 % interval over seeds"))
    if published:
        marks.append(
            Line2D(
                [],
                [],
                color=SOFT,
                marker="o",
                markerfacecolor="white",
                linestyle=(0, (4, 2.5)),
                linewidth=1.1,
                label="published measurement",
            )
        )
    return marks


def last_known(rows: Sequence[Row], metric: str) -> tuple[float, float]:
    """Return sessions and value of the last row that has the metric, or NaN twice."""
    for row in reversed(rows):
        if number(row, metric) > 0:
            return number(row, "sessions"), number(row, metric)
    return NAN, NAN


def mark_unknown(axes: Axes, rows: Sequence[Row], metrics: Sequence[str]) -> None:
    """Say at the foot of the axes at which session counts there is nothing to draw."""
    for row in rows:
        if all(math.isnan(number(row, metric)) for metric in metrics):
            axes.text(
                number(row, "sessions"),
                0.015,
                "nothing completed",
                transform=axes.get_xaxis_transform(),
                rotation=90,
                ha="center",
                va="bottom",
                size=KEY_PT,
                color=SOFT,
                path_effects=[HALO],
            )


def say_empty(axes: Axes) -> None:
    """Say in the middle of the axes that no value is known; ticks would mean nothing."""
    axes.set_yticks([])
    axes.text(0.5, 0.5, "no completed requests to draw", transform=axes.transAxes, ha="center", color=FAINT, size=12)
