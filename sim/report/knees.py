"""Knees: a dashed line, a label at the top, a band where the interval is known, shading beyond."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes

from sim.report.axes import AXES_WIDTH_IN, width_share
from sim.report.labels import LABEL_ROW
from sim.report.style import BEYOND, HALO, LABEL_PT, text_width_in
from sim.results.points import Interval


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a curve leaves its flat part, in sessions, and how sure that is."""

    sessions: float
    text: str
    color: str
    interval: Interval | None = None


class Place(NamedTuple):
    """Where a label goes: row from the top, side of its line, and the shares of the width it spans."""

    row: int
    to_left: bool
    start: float
    end: float
    line: float


def knee_places(axes: Axes, knees: Sequence[Knee]) -> list[Place]:
    """Return a place for each knee's label, clear of other labels and of other knees' lines.

    A line reaches up to its own label, so a label may stand above lines that end in lower rows. `axes` must
    have its x axis set.
    """
    placed: list[Place] = []
    for knee in knees:
        options = [_place(axes, knee, row, to_left) for row in range(len(knees)) for to_left in (True, False)]
        inside = [place for place in options if place.start > 0 and place.end < 1] or options
        free = (place for place in inside if not any(_clash(place, other) for other in placed))
        placed.append(next(free, _place(axes, knee, len(placed), to_left=inside[0].to_left)))
    return placed


def _place(axes: Axes, knee: Knee, row: int, to_left: bool) -> Place:  # noqa: FBT001
    line = width_share(axes, knee.sessions)
    width = (text_width_in(knee.text, LABEL_PT, "bold") + 0.12) / AXES_WIDTH_IN
    return Place(row, to_left, line - width if to_left else line, line if to_left else line + width, line)


def _clash(one: Place, two: Place) -> bool:
    """Tell whether two labels share a row and overlap, or one's line runs through the other's label."""
    return (
        (one.row == two.row and one.start < two.end and two.start < one.end)
        or (two.row <= one.row and one.start < two.line < one.end)
        or (one.row <= two.row and two.start < one.line < two.end)
    )


def draw_knees(axes: Axes, knees: Sequence[Knee], places: Sequence[Place]) -> None:
    """Draw a dashed line and a label a knee; a shaded band where its interval is known."""
    for knee, place in zip(knees, places, strict=True):
        height = _row_height(place.row)
        axes.plot(
            [knee.sessions] * 2,
            [0, height + LABEL_ROW / 2],
            transform=axes.get_xaxis_transform(),
            color=knee.color,
            linestyle=(0, (5, 3)),
            linewidth=1.3,
            label="knee",
            zorder=2.5,
        )
        if knee.interval is not None and knee.interval.low < knee.interval.high:
            axes.axvspan(*knee.interval, color=knee.color, alpha=0.09, linewidth=0, zorder=1)
        axes.annotate(
            knee.text,
            (knee.sessions, height),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-6 if place.to_left else 6, 0),
            textcoords="offset points",
            ha="right" if place.to_left else "left",
            va="center_baseline",
            color=knee.color,
            size=LABEL_PT,
            weight="bold",
            parse_math=False,
            path_effects=[HALO],
            zorder=8,
        )


def _row_height(row: int) -> float:
    """Return the height of a row of labels, as a share of the axes' height."""
    return 1 - LABEL_ROW / 2 - row * LABEL_ROW


def knee_headroom(places: Sequence[Place]) -> float:
    """Return the share of the axes' height to leave free for the labels."""
    return 0.03 + LABEL_ROW * (max((place.row for place in places), default=-1) + 1)


def shade_beyond(axes: Axes, sessions: float, end: float) -> None:
    """Shade everything from the knee to `end`, both in sessions."""
    axes.axvspan(
        sessions,
        max(sessions, end),
        color=BEYOND,
        alpha=0.05,
        linewidth=0,
        zorder=0.6,
        label="beyond",
    )
