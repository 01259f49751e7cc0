"""Labels for parts of a bar that are too thin to hold one: above it, side by side, each led to its part by a line."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from sim.report.style import FAINT, SOFT

_SIZE, _LETTER_IN = 7.0, 0.062  # points; the width of one letter with its share of the gap to the next label
_UP = 0.12  # of a row: from the bar to its labels


class Thin(NamedTuple):
    """A label, and where on the axis its part stands."""

    at: float
    text: str


def write_leaders(axes: Axes, top: float, labels: Sequence[Thin], *, axis_in: float) -> None:
    """Write labels above a bar, whose upper edge is at `top`, on an axis of so many inches."""
    low, high = axes.get_xlim()
    widths = [_LETTER_IN * (len(one.text) + 2) * (high - low) / axis_in for one in labels]
    for one, place in zip(labels, side_by_side([one.at for one in labels], widths, low, high), strict=True):
        axes.annotate(
            one.text,
            xy=(one.at, top),
            xytext=(place, top - _UP),
            size=_SIZE,
            color=SOFT,
            ha="center",
            va="bottom",
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
            zorder=8,
        )


def side_by_side(centres: Sequence[float], widths: Sequence[float], low: float, high: float) -> list[float]:
    """Return centres of labels in the same order that do not overlap, between low and high if there is room.

    Each is moved to the right as far as those before it demand, then all to the left as far as the end demands.
    """
    placed: list[float] = []
    edge = low
    for centre, width in zip(centres, widths, strict=True):
        placed.append(max(centre, edge + width / 2))
        edge = placed[-1] + width / 2
    edge = high
    for index in range(len(placed) - 1, -1, -1):
        placed[index] = min(placed[index], edge - widths[index] / 2)
        edge = placed[index] - widths[index] / 2
    return placed
