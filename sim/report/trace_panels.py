"""Panels of a trace's sheet: how values spread on a log scale, load over time, and the retention curves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, MultipleLocator, NullLocator
from numpy.typing import NDArray

from sim.report.style import BLUE, CRIMSON, FAINT, HALO, INK, SAGE, SOFT
from sim.report.trace_numbers import percent, span, tokens
from workloads.sharing.kept import KeptCurve
from workloads.sharing.retention import Retention

_BINS = 44
_EDGE = 0.68  # of a panel's width: beyond, words do not fit beside a point
_STEPS_S = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
_TIMES_S = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400)


class Spread(NamedTuple):
    """Values, what they are, and the colour they have."""

    values: NDArray[np.float64]
    name: str
    color: str


def panel_title(axes: Axes, text: str) -> None:
    """Write what a panel shows above it."""
    axes.set_title(text, loc="left", size=9.5, weight="bold", color=INK, pad=7)


def spread_panel(axes: Axes, spreads: Sequence[Spread], *, times: bool = False) -> None:
    """Draw histograms of what is above zero over one log axis, each filled, named with its median."""
    positive = [one._replace(values=one.values[one.values > 0]) for one in spreads]
    drawn = [one for one in positive if one.values.size]
    if not drawn:
        axes.set_yticks([])
        axes.text(0.02, 0.5, "nothing above zero to draw", transform=axes.transAxes, color=FAINT)
        return
    least = min(float(np.quantile(one.values, 0.001)) for one in drawn)
    most = max(float(one.values.max()) for one in drawn)
    edges = np.geomspace(least, max(most, least * 10) * 1.0001, _BINS + 1)
    for one in drawn:
        shares = np.histogram(np.clip(one.values, edges[0], edges[-1]), edges)[0] / one.values.size
        axes.stairs(shares, edges, fill=True, color=one.color, alpha=0.16, zorder=3)
        axes.stairs(shares, edges, color=one.color, linewidth=1.6, zorder=4, label=_named(one, times=times))
    axes.set_xscale("log")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    _log_ticks(axes, times=times)
    top = axes.get_ylim()[1]
    axes.set_ylim(0, top * (1 + 0.13 * len(drawn)))
    axes.legend(loc="upper right", handlelength=1.2, borderaxespad=0, labelspacing=0.3)


def _named(one: Spread, *, times: bool) -> str:
    median = float(np.median(one.values))
    return f"{one.name}, median {span(median) if times else tokens(median)}"


def _log_ticks(axes: Axes, *, times: bool) -> None:
    low, high = axes.get_xlim()
    if times:
        axes.xaxis.set_major_locator(FixedLocator([time for time in _TIMES_S if low <= time <= high]))
        axes.xaxis.set_major_formatter(lambda value, _: span(value))
    else:
        axes.xaxis.set_major_locator(LogLocator(numticks=8))
        axes.xaxis.set_major_formatter(lambda value, _: tokens(value))
    axes.xaxis.set_minor_locator(NullLocator())


def load_panel(axes: Axes, at_s: NDArray[np.float64], prompt_tokens: NDArray[np.int32]) -> None:
    """Draw prompt tokens a second over the trace, in some sixty steps."""
    since_s = at_s - at_s.min()
    most_s = float(since_s.max()) or 1.0
    edges = np.linspace(0, most_s * 1.0001, 61)
    rate = np.histogram(since_s, edges, weights=prompt_tokens.astype(np.float64))[0] / np.diff(edges)
    axes.stairs(rate, edges, fill=True, color=BLUE, alpha=0.16, zorder=3)
    axes.stairs(rate, edges, color=BLUE, linewidth=1.6, zorder=4)
    axes.set_xlim(0, most_s)
    axes.set_ylim(0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    step_s = next((step for step in _STEPS_S if most_s / step <= 7), most_s)
    axes.xaxis.set_major_locator(MultipleLocator(step_s))
    axes.yaxis.set_major_formatter(lambda value, _: tokens(value) if value else "0")
    axes.xaxis.set_major_formatter(lambda value, _: span(value))
    axes.set_xlabel("since the first request")


def size_panel(axes: Axes, kept: Retention) -> None:
    """Draw hit rates over the cache's size: LRU, the optimum, and what an unlimited cache hits."""
    total, block_tokens = kept.prompt_tokens, kept.block_tokens
    least, most = kept.sizes[0] * block_tokens, kept.sizes[-1] * block_tokens
    sizes = np.unique(np.geomspace(kept.sizes[0], kept.sizes[-1], 200).astype(np.int64))
    lru = np.array([kept.lru.at(size) for size in sizes.tolist()]) / total
    best = np.array(kept.optimum) / total
    places = np.array(kept.sizes) * block_tokens
    axes.fill_between(places, best, [kept.lru.at(size) / total for size in kept.sizes], color=SAGE, alpha=0.13, lw=0)
    axes.plot(places, best, color=SAGE, linewidth=1.8, linestyle=(0, (4, 2)), zorder=4, label="optimum (Belady)")
    axes.plot(sizes * block_tokens, lru, color=BLUE, linewidth=2.2, zorder=5, label="LRU")
    half_blocks = kept.lru.smallest(0.5 * kept.hit_tokens)
    half = half_blocks * block_tokens
    _limits(axes, least, most, kept.hit_tokens / total)
    _mark(axes, half, kept.lru.at(half_blocks) / total, f"LRU finds half\nwith {tokens(half)} tokens", BLUE)
    _log_ticks(axes, times=False)
    axes.set_xlabel("cache size, tokens (log scale)")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.1)


def kept_panel(axes: Axes, curve: KeptCurve, total: int) -> None:
    """Draw the hit rate over how long idle content is kept, and where half of what comes back is kept."""
    positive = curve.idle_s[curve.idle_s > 0]
    least = max(float(positive.min(initial=1.0)), 0.1) if positive.size else 0.1
    most = max(float(curve.idle_s.max(initial=0.0)), least * 100)
    times = np.geomspace(least, most, 300)
    axes.plot(times, [curve.at(time) / total for time in times.tolist()], color=CRIMSON, linewidth=2.2, zorder=5)
    _limits(axes, least, most, curve.tokens / total)
    half_s = curve.time_for(0.5)
    if half_s is not None:
        _mark(axes, max(half_s, least), curve.at(half_s) / total, f"half-life {span(half_s)}", CRIMSON)
    _log_ticks(axes, times=True)
    axes.set_xlabel("idle content kept for (log scale)")


def _limits(axes: Axes, least: float, most: float, unlimited: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(least, max(most, 2 * least))
    axes.set_ylim(0, max(1.16 * unlimited, 0.01))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axes.axhline(unlimited, color=SOFT, linewidth=1.2, linestyle=(0, (1, 2)), zorder=2)
    axes.annotate(
        f"unlimited {percent(unlimited)}",
        (0, unlimited),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        size=8,
        color=SOFT,
    )


def _mark(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    """Put a point on a rising curve and its words at the lower right, where no curve is; at the edge, left of that."""
    axes.plot([x], [y], marker="o", markersize=6, color=color, markeredgecolor="white", zorder=7)
    low, high = np.log(axes.get_xlim())
    place = float((np.log(x) - low) / (high - low))
    at_edge = place > _EDGE
    axes.annotate(
        text,
        (1, y) if at_edge else (x, y),
        xycoords=("axes fraction", "data") if at_edge else "data",
        xytext=(-2, -14) if at_edge else (9, -3),
        textcoords="offset points",
        ha="right" if at_edge else "left",
        va="top",
        size=8.5,
        weight="bold",
        color=color,
        path_effects=[HALO],
        zorder=8,
    )
