"""A cliff, predicted and measured: TTFT p50 and p90 above, hit rate below, over the number of sessions."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from calibrate.validation.cliff_knee import Sweep
from calibrate.validation.cliff_prediction import CliffMetrics
from sim.report.marks import Look
from sim.report.style import AMBER, BLUE, INK, SAGE, SOFT, headings, sheet
from sim.units import seconds

BAND_PERCENTILES = (5, 95)
ABOVE = (("ttft_p50_s", BLUE, "p50", "o"), ("ttft_p90_s", AMBER, "p90", "s"))


def cliff_validation_chart(sweep: Sweep, *, provenance: str) -> Figure:
    """Return the chart of a sweep; hollow marks are measured runs, each repeat its own."""
    with sheet(provenance) as figure:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for metric, color, label, marker in ABOVE:
            _draw(top, sweep, attrgetter(metric), Look(color, marker), label)
        _draw(bottom, sweep, lambda run: 100 * run.hit_rate, Look(SAGE, "D"), "hit rate")
        top.set_yscale("log")
        top.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        top.yaxis.set_minor_locator(NullLocator())
        top.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
        top.set_ylabel("TTFT (log scale)")
        bottom.set_ylabel("prefix hit rate, %")
        bottom.set_ylim(0, 100)
        bottom.set_xlabel("concurrent sessions")
        bottom.set_xticks(sorted(sweep.predicted))
        for axes in (top, bottom):
            if sweep.knee.sessions is not None:
                axes.axvline(sweep.knee.sessions, color=INK, linestyle=(0, (5, 3)), linewidth=1.2, zorder=2)
        key = top.legend(handles=_key(), loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
        knee = (
            "no knee predicted" if sweep.knee.sessions is None else f"knee predicted at {sweep.knee.sessions} sessions"
        )
        headings(top, key, f"{sweep.profile}: a real engine's cliff", f"{knee} (dashed); input seed {sweep.seed}")
    return figure


def _draw(axes: Axes, sweep: Sweep, value: Callable[[CliffMetrics], float], look: Look, label: str) -> None:
    color = look.color
    counts = sorted(sweep.predicted)
    values = np.array([[value(run) for run in sweep.predicted[count]] for count in counts])
    low, high = np.percentile(values, BAND_PERCENTILES, axis=1)
    axes.fill_between(counts, low, high, color=color, alpha=0.18, linewidth=0)
    means = values.mean(axis=1)
    axes.plot(counts, means, color=color, linewidth=2)
    axes.annotate(
        label,
        (counts[-1], means[-1]),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=color,
        weight="bold",
    )
    for case in sweep.cases:
        axes.plot(
            [case.workload.sessions] * len(case.measured),
            [value(run) for run in case.measured],
            linestyle="none",
            marker=look.marker,
            markersize=6,
            markerfacecolor=color if case.fitted_on else "none",
            markeredgecolor=color,
            markeredgewidth=1.4,
            zorder=5,
        )


def _key() -> list[Any]:
    mark: dict[str, Any] = {"color": SOFT, "linestyle": "none", "marker": "o", "markeredgewidth": 1.4}
    return [
        Line2D([], [], color=SOFT, linewidth=2, label="predicted"),
        Patch(color=SOFT, alpha=0.2, linewidth=0, label="90 % of replicates"),
        Line2D([], [], markerfacecolor="none", label="measured", **mark),
        Line2D([], [], markerfacecolor=SOFT, label="measured, steps fitted on", **mark),
    ]
