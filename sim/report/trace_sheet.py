"""A trace on one sheet: lengths, gaps (or load over time), and, where asked, what retention costs."""

from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sim.report.style import AMBER, BLUE, CRIMSON, SAGE, SOFT, sheet
from sim.report.trace_panels import Spread, kept_panel, load_panel, panel_title, size_panel, spread_panel
from sim.report.trace_words import readings, understood
from workloads.sharing.retention import Retention
from workloads.traces.columns import DRIVERS
from workloads.traces.open import OpenTrace
from workloads.traces.request import HUMAN, TOOL
from workloads.traces.statistics import TraceStatistics

_WIDTH_IN = 10.0
_ROW_IN = 2.75
_NAME_LETTERS = 70
_HEAD_IN, _FOOT_IN = 0.7, 0.8  # title and subtitle; small print


def trace_sheet(trace: OpenTrace, found: TraceStatistics, kept: Retention | None) -> Figure:
    """Return the figure."""
    curves = kept is not None and kept.hit_tokens > 0
    with sheet(f"{'; '.join(readings(trace, found, kept))}.", width_in=_WIDTH_IN) as figure:
        rows = 2 if curves else 1
        figure.set_size_inches(_WIDTH_IN, _FOOT_IN + _HEAD_IN + rows * _ROW_IN)
        grid = figure.add_gridspec(rows + 1, 2, wspace=0.08, hspace=0.06, height_ratios=[_HEAD_IN, *rows * [_ROW_IN]])
        _head(figure.add_subplot(grid[0, :]), trace, found)
        _lengths(figure.add_subplot(grid[1, 0]), found)
        _right(figure.add_subplot(grid[1, 1]), found)
        if kept is not None and curves:
            axes = figure.add_subplot(grid[2, 0] if kept.kept is not None else grid[2, :])
            size_panel(axes, kept)
            panel_title(axes, "Hit rate by cache size")
            if kept.kept is not None:
                axes = figure.add_subplot(grid[2, 1])
                kept_panel(axes, kept.kept, kept.prompt_tokens)
                panel_title(axes, "Hit rate by time that idle content is kept")
    for axes in figure.axes:  # the layout's last bits differ from time to time
        left, bottom, width, height = (round(value, 5) for value in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))
    return figure


def _head(axes: Axes, trace: OpenTrace, found: TraceStatistics) -> None:
    """Write title and subtitle over both columns."""
    axes.set_axis_off()
    axes.text(0, 1, cut(trace.path.name), size=14, weight="bold", va="top", transform=axes.transAxes)
    text = fill(understood(trace, found), 125)
    axes.text(0, 0.52, text, size=9.5, color=SOFT, va="top", transform=axes.transAxes)


def cut(name: str) -> str:
    """Return a file's name at a length that fits."""
    return name if len(name) <= _NAME_LETTERS else f"{name[: _NAME_LETTERS - 1]}…"


def _lengths(axes: Axes, found: TraceStatistics) -> None:
    prompt = found.columns.integers("prompt")
    spreads = [
        Spread(_floats(prompt), "prompts", BLUE),
        Spread(_floats(found.columns.integers("output")), "answers", AMBER),
    ]
    if found.sharing is not None:
        spreads.append(
            Spread(_floats(prompt - found.columns.integers("hit")), "of prompts, never seen before", CRIMSON)
        )
    spread_panel(axes, spreads)
    axes.set_xlabel("tokens (log scale)")
    panel_title(axes, "Lengths: share of requests")


def _right(axes: Axes, found: TraceStatistics) -> None:
    """Draw gaps where the trace has any, else its load over time, else how long sessions are."""
    gap_s, drivers, at_s = found.columns.seconds("gap_s"), found.columns.drivers, found.columns.seconds("at_s")
    known = ~np.isnan(gap_s)
    if known.any() and gap_s[known].max() > 0:
        by = {"before a tool's request": TOOL, "before a human's request": HUMAN}
        spreads = [
            Spread(gap_s[known & (drivers == DRIVERS[who])], name, color)
            for (name, who), color in zip(by.items(), (BLUE, AMBER), strict=True)
        ]
        if not sum(one.values.size for one in spreads):
            spreads = [Spread(gap_s[known], "all", SAGE)]
        spread_panel(axes, spreads, times=True)
        axes.set_xlabel("gap (log scale)")
        panel_title(axes, "Gaps in a session: share of gaps")
    elif found.arrivals is not None and found.arrivals.span_s > 0:
        timed = ~np.isnan(at_s)
        load_panel(axes, at_s[timed], found.columns.integers("prompt")[timed])
        panel_title(axes, "Load: prompt tokens per second")
    else:
        spread_panel(axes, [Spread(_floats(found.columns.turns), "sessions", SAGE)])
        axes.set_xlabel("requests a session (log scale)")
        panel_title(axes, "Turns: share of sessions")


def _floats(values: NDArray[np.int32]) -> NDArray[np.float64]:
    return values.astype(np.float64)
