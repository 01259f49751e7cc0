"""The cliff: TTFT p50, p95 and p99 against concurrent sessions, throughput in a strip below, the knee marked."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.axes import session_axis, value_axis
from sim.report.marks import (
    Look,
    NamedValue,
    band,
    column,
    curve,
    drawn_values,
    end_labels,
    has_bands,
    key_marks,
    published_curve,
)
from sim.report.style import AMBER, BLUE, CRIMSON, HALO, INK, SAGE, SOFT, headings, sheet
from sim.results.points import Row, by_sessions, humane, number

PERCENTILES = {
    "ttft_p50_s": Look(BLUE, "o"),
    "ttft_p95_s": Look(AMBER, "s"),
    "ttft_p99_s": Look(CRIMSON, "D"),
}
RATE = "requests_per_s"


def cliff_chart(
    points: Iterable[Row],
    *,
    title: str,
    subtitle: str = "",
    published: Iterable[Row] = (),
    knee_sessions: float | None = None,
    knee_interval: tuple[float, float] | None = None,
    slo_ttft_p99_s: float | None = None,
    unit: str = "sessions",
    provenance: str = "",
) -> Figure:
    """Return the chart of a sweep: TTFT in seconds on a log axis, requests per second on the right.

    `published` rows are drawn hollow and dashed in the same colours. `knee_interval` is the range over single seeds of
    `knee_sessions`, `slo_ttft_p99_s` a limit in seconds, `unit` what the session counts count. Values not known leave
    gaps.
    """
    rows, measured = by_sessions(points), by_sessions(published)
    with sheet(provenance) as figure:
        axes, strip = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        counts = column([*rows, *measured], "sessions").tolist()
        session_axis(strip, counts, unit, knees=[] if knee_sessions is None else [knee_sessions])
        _percentiles(axes, rows, measured, slo_ttft_p99_s)
        _throughput(strip, rows, measured)
        if knee_sessions is not None:
            span = "" if knee_interval is None else f" ({knee_interval[0]:g} to {knee_interval[1]:g} over seeds)"
            _knee(axes, strip, knee_sessions, f"KV knee: {knee_sessions:g} {unit}{span}")
        handles = key_marks(bands=has_bands(rows, PERCENTILES), published=bool(measured))
        key = axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0)
        headings(axes, key, title, subtitle)
    return figure


def _percentiles(axes: Axes, rows: Sequence[Row], measured: Sequence[Row], slo_s: float | None) -> None:
    """Draw the TTFT percentiles and the SLO, each named at the right."""
    axes.spines.bottom.set_visible(False)
    axes.tick_params(axis="x", which="both", length=0)
    values = [value for metric in PERCENTILES for value in drawn_values([*rows, *measured], metric)]
    value_axis(axes, values, "ttft_p99_s", limit=slo_s, title="TTFT")
    labels = []
    if slo_s is not None:
        axes.axhline(slo_s, color=SOFT, linestyle=(0, (1, 2)), linewidth=1.5, label="limit")
        labels.append(NamedValue(slo_s, f"SLO p99 ≤ {humane(slo_s, 'ttft_p99_s')}", SOFT))
    for metric, look in PERCENTILES.items():
        curve(axes, rows, metric, look, metric)
        band(axes, rows, metric, look)
        published_curve(axes, measured, metric, look)
        known = [number(row, metric) for row in rows if number(row, metric) > 0]
        if known:
            text = f"{metric[5:8]}  {humane(number(rows[-1], metric), metric)}".removesuffix("  -")
            labels.append(NamedValue(known[-1], text, look.color))
    end_labels(axes, labels)


def _throughput(strip: Axes, rows: Sequence[Row], measured: Sequence[Row]) -> None:
    """Draw requests per second, filled down to zero."""
    value_axis(strip, drawn_values([*rows, *measured], RATE), RATE)
    strip.yaxis.tick_right()
    strip.yaxis.set_label_position("right")
    strip.yaxis.label.set_color(SAGE)
    strip.tick_params(axis="y", labelcolor=SAGE)
    strip.grid(visible=False)
    x, y = column(rows, "sessions"), column(rows, RATE)
    strip.fill_between(x, 0, y, color=SAGE, alpha=0.12, linewidth=0)
    strip.plot(x, y, color=SAGE, linewidth=1.4, marker="o", markersize=2.5, label=RATE)
    published_curve(strip, measured, RATE, Look(SAGE, "o"), size=4)


def _knee(axes: Axes, strip: Axes, sessions: float, text: str) -> None:
    """Mark the knee with a dashed line, shade what lies beyond it, and say where it is."""
    left, right = axes.get_xlim()
    for each in (axes, strip):
        each.axvline(sessions, color=INK, linestyle=(0, (5, 3)), linewidth=1.3, label="knee", zorder=2.5)
        each.axvspan(sessions, right, color=CRIMSON, alpha=0.05, linewidth=0, zorder=0.6, label="beyond")
    to_left = math.sqrt(sessions) > (math.sqrt(left) + math.sqrt(right)) / 2
    axes.annotate(
        text,
        (sessions, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-6 if to_left else 6, -4),
        textcoords="offset points",
        ha="right" if to_left else "left",
        va="top",
        weight="bold",
        path_effects=[HALO],
        zorder=8,
    )
