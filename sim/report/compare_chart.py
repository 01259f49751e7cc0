"""One metric of several configurations: each with its own cliff, each knee named in the legend."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from textwrap import fill
from typing import Any

from matplotlib.figure import Figure

from sim.report.axes import session_axis, value_axis
from sim.report.marks import Look, band, column, curve, drawn_values, has_bands, key_marks, published_curve
from sim.report.style import SOFT, headings, sheet
from sim.results.points import Row, by_sessions, humane, number

Curves = Mapping[str, Iterable[Row]]

WIDTH_IN = 11.0
COLORS = ("#009e73", "#0072b2", "#d55e00", "#cc79a7", "#e69f00", "#56b4e9", "#22272e")  # Okabe and Ito
MARKERS = ("o", "s", "D", "^", "v", "<", ">", "p")
FEW = 4  # curves that leave room for knee lines and bands


def compare_chart(
    curves: Curves,
    *,
    title: str,
    metric: str = "ttft_p99_s",
    subtitle: str = "",
    knees: Mapping[str, float | None] | None = None,
    published: Curves | None = None,
    limit: float | None = None,
    unit: str = "sessions",
    provenance: str = "",
) -> Figure:
    """Return the chart of one metric against sessions, a curve a configuration, in the order given.

    Durations stand on a log axis in seconds, other metrics on a linear one. `knees` (in sessions) and `published` are
    looked up by the curve's name; `limit` is drawn as a dotted line.
    """
    simulated = {name: by_sessions(rows) for name, rows in curves.items()}
    measured = {
        name: [row for row in by_sessions(rows) if number(row, metric) > 0] for name, rows in (published or {}).items()
    }
    everything = [row for group in (simulated, measured) for rows in group.values() for row in rows]
    names = list(dict.fromkeys([*simulated, *measured]))
    found = {name: knee for name in names if (knee := (knees or {}).get(name)) is not None}
    few = len(names) <= FEW
    with sheet(provenance, width_in=WIDTH_IN) as figure:
        axes = figure.add_subplot()
        session_axis(axes, column(everything, "sessions").tolist(), unit, knees=found.values())
        value_axis(axes, drawn_values(everything, metric), metric, limit=limit)
        handles: list[Any] = []
        for name, color, marker in zip(names, cycle(COLORS), cycle(MARKERS), strict=False):
            look, rows = Look(color, marker, 2 if few else 1.5), simulated.get(name, [])
            label = f"{name}: knee {found[name]:g}" if name in found else name
            handles.append(curve(axes, rows, metric, look, fill(label, 44)))
            published_curve(axes, measured.get(name, []), metric, look)
            if few:
                band(axes, rows, metric, look)
            if few and name in found:
                axes.axvline(found[name], color=color, linestyle=(0, (5, 3)), linewidth=1, label=f"{name} knee")
        if limit is not None:
            text = f"limit {humane(limit, metric)}"
            handles.append(axes.axhline(limit, color=SOFT, linestyle=(0, (1, 2)), linewidth=1.5, label=text))
        handles += key_marks(bands=few and has_bands(everything, [metric]), published=any(measured.values()))[1:]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1), labelspacing=0.8)
        headings(axes, axes, title, subtitle)
    return figure
