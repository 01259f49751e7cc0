"""Remedies under each kind of traffic, as bars: answers in time, with p99 TTFT and what was lost beside them."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.remedies import Remedies, RemedyCell
from sim.report.style import BLUE, CRIMSON, INK, SAGE, SOFT, headings, sheet
from sim.units import seconds

WIDTH_IN, ROW_IN, AROUND_IN = 11.0, 0.36, 2.2
ROOM = 1.9  # of the longest bar, for the words beside it


def remedies_chart(remedies: Remedies, *, title: str, provenance: str = "") -> Figure:
    """Return the chart: a panel a scenario, a bar a variant in the order of the table."""
    names = list(remedies.rows)
    with sheet(provenance, width_in=WIDTH_IN) as figure:
        figure.set_size_inches(WIDTH_IN, AROUND_IN + ROW_IN * len(names))
        panels = figure.subplots(1, len(remedies.scenarios), sharey=True, squeeze=False)[0]
        for column, axes in enumerate(panels):
            _panel(axes, [cells[column] for cells in remedies.rows.values()])
            axes.set_xlabel("answers/s within the promise")
            headings(axes, axes, "", f"{remedies.scenarios[column]}: {remedies.loads[column]}")
        panels[0].set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
        figure.suptitle(title, x=0.02, ha="left", size=14, weight="bold", color=INK)
    return figure


def _panel(axes: Axes, cells: list[RemedyCell]) -> None:
    known = [cell.answers_in_time_per_s for cell in cells if not math.isnan(cell.answers_in_time_per_s)]
    most = ROOM * max(known, default=0.0) or 1.0
    axes.set_xlim(0, most)
    for row, cell in enumerate(cells):
        rate = cell.answers_in_time_per_s
        if math.isnan(rate):
            axes.text(0.02 * most, row, "not run", va="center", size=8, color=SOFT)
            continue
        axes.barh(row, rate, color=BLUE if row else SAGE, height=0.62)
        axes.text(rate + 0.02 * most, row, _beside(cell), va="center", size=8, color=CRIMSON if cell.crashes else INK)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")


def _beside(cell: RemedyCell) -> str:
    parts = [] if math.isnan(cell.ttft_p99_s) else [seconds(cell.ttft_p99_s)]
    if cell.not_answered_share >= 0.005:
        parts.append(f"{cell.not_answered_share:.0%} not answered")
    if cell.crashes:
        parts.append(f"died {cell.crashes} times")
    return ", ".join(parts)
