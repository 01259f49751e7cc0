"""Labels at the right ends of curves, kept clear of each other."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from sim.report.axes import AXES_WIDTH_IN, width_share
from sim.report.style import HALO, LABEL_PT, SOFT, text_width_in

LABEL_ROW = 0.062  # of the axes' height
LABEL_OFFSET_IN = 0.16


@dataclass(frozen=True, slots=True)
class EndLabel:
    """What to write to the right of a curve's last known point, `x` in sessions, `y` in the axes' unit."""

    axes: Axes
    text: str
    x: float
    y: float
    color: str


def label_room_in(texts: Iterable[str]) -> float:
    """Return the inches that labels at line ends need."""
    return max((text_width_in(text, LABEL_PT, "bold") for text in texts), default=0.0) + LABEL_OFFSET_IN + 0.12


def limit_label(axes: Axes, value: float, text: str, last_sessions: float) -> EndLabel:
    """Draw a limit as a dotted line up to the last session count; return its label."""
    reach = [axes.get_xlim()[0], last_sessions]
    axes.plot(reach, [value] * 2, color=SOFT, linestyle=(0, (1, 2)), linewidth=1.5, label="limit", zorder=2)
    return EndLabel(axes, text, last_sessions, value, SOFT)


def end_labels(axes: Axes, labels: Iterable[EndLabel]) -> None:
    """Write each label beside its curve's last point, moved up or down where labels would overlap.

    All go on `axes`, which lie in front, also those that belong to an axis behind it.
    """
    known = [label for label in labels if math.isfinite(label.y)]
    for x in dict.fromkeys(label.x for label in known):
        beside = [label for label in known if label.x == x]
        heights = [height_of(label) for label in beside]
        for label, height, free in zip(beside, heights, spread(heights, LABEL_ROW), strict=True):
            _end_label(axes, label, height, free)


def _end_label(axes: Axes, label: EndLabel, height: float, free: float) -> None:
    """Write a label at height `free`, with a leader to the point at `height` if that is elsewhere."""
    end = width_share(axes, label.x)
    start = end + LABEL_OFFSET_IN / AXES_WIDTH_IN
    if abs(free - height) > 0.012:
        axes.plot(
            [end + 0.06 / AXES_WIDTH_IN, start - 0.03 / AXES_WIDTH_IN],
            [height, free],
            transform=axes.transAxes,
            color=label.color,
            linewidth=0.8,
            alpha=0.55,
            label="leader",
            zorder=4,
        )
    axes.text(
        start,
        free,
        label.text,
        transform=axes.transAxes,
        color=label.color,
        size=LABEL_PT,
        weight="bold",
        va="center_baseline",
        parse_math=False,
        path_effects=[HALO],
        zorder=8,
    )


def height_of(label: EndLabel) -> float:
    """Return where a label's point is, as a share of the axes' height."""
    at = label.axes.transData.transform((label.x, label.y))
    return float(label.axes.transAxes.inverted().transform(at)[1])


def spread(heights: Sequence[float], gap: float, low: float = 0.02, high: float = 0.98) -> list[float]:
    """Move heights apart to at least `gap`, keeping their order and staying as near as can be.

    Neighbours that collide become one group centred on what its members wanted, until no groups collide.
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    groups: list[list[int]] = [[index] for index in order]
    while True:
        starts = [_group_start([heights[i] for i in group], gap, low, high) for group in groups]
        clash = next(
            (k for k in range(len(groups) - 1) if starts[k] + len(groups[k]) * gap > starts[k + 1] + 1e-9),
            None,
        )
        if clash is None:
            break
        groups[clash : clash + 2] = [groups[clash] + groups[clash + 1]]
    moved = [0.0] * len(heights)
    for group, start in zip(groups, starts, strict=True):
        for rank, index in enumerate(group):
            moved[index] = start + rank * gap
    return moved


def _group_start(wanted: Sequence[float], gap: float, low: float, high: float) -> float:
    """Return the lowest height of a group centred on what its members wanted, inside the axes."""
    extent = (len(wanted) - 1) * gap
    start = sum(wanted) / len(wanted) - extent / 2
    return max(min(start, high - extent), low)
