"""A trace's answers: TTFT of every request over the time at which it came, with its p50 and p99."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.axes import value_axis
from sim.report.marks import NamedValue, end_labels
from sim.report.style import BLUE, CRIMSON, SOFT, headings, sheet
from sim.results.points import Row, humane, number

METRIC = "ttft_p99_s"
PERCENTILES = {"ttft_p50_s": BLUE, "ttft_p99_s": CRIMSON}


def trace_chart(
    turns: Sequence[Row],
    point: Row,
    *,
    title: str,
    subtitle: str = "",
    slo_ttft_p99_s: float | None = None,
    provenance: str = "",
) -> Figure:
    """Return the chart of single requests, with `arrival_s` and `first_token_s`, and of the point they make.

    Requests without a first token are left out. `slo_ttft_p99_s` is a limit in seconds.
    """
    arrival_s = np.array([number(row, "arrival_s") for row in turns])
    ttft_s = np.array([number(row, "first_token_s") for row in turns]) - arrival_s
    with sheet(provenance) as figure:
        axes = figure.add_subplot()
        axes.set_xlabel("arrival, s")
        value_axis(axes, ttft_s.tolist(), METRIC, limit=slo_ttft_p99_s, title="TTFT")
        axes.plot(
            arrival_s,
            ttft_s,
            color=SOFT,
            linestyle="none",
            marker="o",
            markersize=4 if len(turns) < 1000 else 2,
            markeredgewidth=0,
            alpha=0.5,
            label="requests",
            rasterized=True,  # an SVG of a million circles opens nowhere
        )
        _lines(axes, point, slo_ttft_p99_s)
        headings(axes, axes, title, subtitle)
    return figure


def _lines(axes: Axes, point: Row, slo_s: float | None) -> None:
    """Draw percentiles and the SLO across, each named at the right."""
    named = []
    if slo_s is not None:
        axes.axhline(slo_s, color=SOFT, linestyle=(0, (1, 2)), linewidth=1.5, label="limit")
        named.append(NamedValue(slo_s, f"SLO p99 ≤ {humane(slo_s, METRIC)}", SOFT))
    for metric, color in PERCENTILES.items():
        value_s = number(point, metric)
        if value_s > 0:
            axes.axhline(value_s, color=color, linewidth=1.4, label=metric)
            named.append(NamedValue(value_s, f"{metric[5:8]}  {humane(value_s, metric)}", color))
    end_labels(axes, named)
