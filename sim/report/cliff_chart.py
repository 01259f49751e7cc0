"""The cliff: TTFT p50, p95 and p99 against concurrent sessions, throughput behind, the knee marked."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.axes import gutter, session_axis, value_axis
from sim.report.knees import Knee, draw_knees, knee_headroom, knee_places, shade_beyond
from sim.report.labels import EndLabel, end_labels, label_room_in, limit_label
from sim.report.marks import (
    Look,
    column,
    curve,
    drawn_values,
    has_intervals,
    key_marks,
    last_known,
    mark_unknown,
    published_curve,
    say_empty,
)
from sim.report.style import AMBER, BLUE, CRIMSON, INK, LABEL_PT, THROUGHPUT, TICK_PT, chart_style, sheet
from sim.results.points import Interval, Row, by_sessions, humane, metric_title, number

PERCENTILES = {
    "ttft_p50_s": Look(BLUE, "o"),
    "ttft_p95_s": Look(AMBER, "s"),
    "ttft_p99_s": Look(CRIMSON, "D"),
}
RATE = "requests_per_s"
RATE_SHARE = 0.2  # of the height: throughput gets a strip of its own at the foot


def cliff_chart(
    points: Iterable[Row],
    *,
    title: str,
    subtitle: str = "",
    published: Iterable[Row] = (),
    knee_sessions: float | None = None,
    knee_interval: tuple[float, float] | None = None,
    slo_ttft_p99_s: float | None = None,
    provenance: str = "",
) -> Figure:
    """Return the chart of a sweep: TTFT in seconds on a log axis, requests per second on the right.

    `published` rows are drawn hollow and dashed in the same colours. `knee_interval` is the range over single seeds of
    `knee_sessions`, `slo_ttft_p99_s` a limit in seconds. Values not known leave gaps.
    """
    rows, measured = by_sessions(points), by_sessions(published)
    knees = [] if knee_sessions is None else [_knee(knee_sessions, knee_interval)]
    with chart_style():
        key = key_marks(published=bool(measured), bands=has_intervals(rows, PERCENTILES))
        figure, axes = sheet(title, subtitle, provenance, key)
        _draw(axes, rows, measured, knees, slo_ttft_p99_s)
    return figure


def _draw(axes: Axes, rows: Sequence[Row], measured: Sequence[Row], knees: Sequence[Knee], slo_s: float | None) -> None:
    """Set the axes around everything, then draw it from the back to the front."""
    counts = [number(row, "sessions") for row in (*rows, *measured)]
    last = max(counts, default=1)
    texts = [*(_end_text(rows, metric) for metric in PERCENTILES), _slo_text(slo_s)]
    session_axis(axes, counts, label_in=label_room_in(texts), knees=[knee.sessions for knee in knees])
    places = knee_places(axes, knees)
    values = [value for metric in PERCENTILES for value in drawn_values(rows, measured, metric)]
    rates = drawn_values(rows, measured, RATE)
    footroom = 1.15 * RATE_SHARE if any(math.isfinite(rate) for rate in rates) else 0.0
    value_axis(
        axes,
        [*values, slo_s or math.nan],
        "ttft_p99_s",
        headroom=knee_headroom(places),
        footroom=footroom,
        title="TTFT",
    )
    end = gutter(axes, last)
    for knee in knees:
        shade_beyond(axes, knee.sessions, end)
    labels = _throughput(axes, rows, measured, rates)
    labels += [_percentile(axes, rows, measured, metric) for metric in PERCENTILES]
    if slo_s is not None:
        labels.append(limit_label(axes, slo_s, _slo_text(slo_s), last))
    end_labels(axes, labels)
    draw_knees(axes, knees, places)
    if any(math.isfinite(value) for value in values):
        mark_unknown(axes, rows, list(PERCENTILES))
    else:
        say_empty(axes)


def _knee(sessions: float, known: tuple[float, float] | None) -> Knee:
    span = "" if known is None else f" ({known[0]:g} to {known[1]:g} over seeds)"
    return Knee(sessions, f"KV knee: {sessions:g} sessions{span}", INK, None if known is None else Interval(*known))


def _end_text(rows: Sequence[Row], metric: str) -> str:
    """Return `p99  43.2 s`: which percentile, and where it ends."""
    name = metric_title(metric).removeprefix("TTFT ")
    return f"{name}  {humane(last_known(rows, metric)[1], metric)}"


def _percentile(axes: Axes, rows: Sequence[Row], measured: Sequence[Row], metric: str) -> EndLabel:
    """Draw one percentile, simulated and published; return its label."""
    look = PERCENTILES[metric]
    curve(axes, rows, metric, look)
    published_curve(axes, measured, metric, look)
    return EndLabel(axes, _end_text(rows, metric), *last_known(rows, metric), look.color)


def _throughput(axes: Axes, rows: Sequence[Row], measured: Sequence[Row], rates: Sequence[float]) -> list[EndLabel]:
    """Draw requests per second as a strip at the foot; return its label, if any is known."""
    if not any(math.isfinite(rate) for rate in rates):
        return []
    right = _axis_behind(axes)
    value_axis(right, rates, RATE, headroom=1 - RATE_SHARE)
    right.set_ylabel("requests/s", size=LABEL_PT, color=THROUGHPUT, y=RATE_SHARE / 2)
    x, y = column(rows, "sessions"), column(rows, RATE)
    right.fill_between(x, 0, y, color=THROUGHPUT, alpha=0.10, linewidth=0)
    right.plot(x, y, color=THROUGHPUT, linewidth=1.4, marker="o", markersize=2.5, alpha=0.9, label=RATE)
    published_curve(right, measured, RATE, Look(THROUGHPUT, "o", 3))
    return [EndLabel(right, "throughput", *last_known(rows, RATE), THROUGHPUT)]


def _axis_behind(axes: Axes) -> Axes:
    """Return a second y axis on the right whose artists lie behind those of the first."""
    right = axes.twinx()
    axes.set_zorder(right.get_zorder() + 1)
    axes.patch.set_visible(False)
    for side in right.spines.values():
        side.set_visible(False)
    right.tick_params(axis="y", length=0, labelsize=TICK_PT, labelcolor=THROUGHPUT, pad=6)
    return right


def _slo_text(limit_s: float | None) -> str:
    return "" if limit_s is None else f"SLO p99 ≤ {humane(limit_s, 'ttft_p99_s')}"
