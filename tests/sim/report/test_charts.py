import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from sim.report.charts import bounds_chart, cliff_chart, compare_chart, trace_chart
from sim.report.style import chart_style

Rows = list[dict[str, Any]]
TTFT = ["ttft_p50_s", "ttft_p95_s", "ttft_p99_s"]


def line(axes: Axes, label: str) -> Line2D:
    """Return the one line with a label."""
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return found


def corners(area: Collection) -> set[tuple[float, float]]:
    """Return the corners of a filled area."""
    return {(x, y) for path in area.get_paths() for x, y in np.asarray(path.vertices).tolist()}


def values(line: Line2D, axis: str = "y") -> list[float]:
    """Return a line's data as floats."""
    return np.asarray(line.get_ydata() if axis == "y" else line.get_xdata(), dtype=float).tolist()


def words(figure: Figure) -> str:
    """Return everything written in a figure."""
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def ticks(figure: Figure) -> list[str]:
    """Return the labels along the x axis."""
    return [text.get_text() for text in figure.axes[-1].get_xticklabels()]


def legend(figure: Figure) -> list[str]:
    """Return what the legend says, line by line."""
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_each_percentile_is_drawn_on_a_log_axis(points: Rows) -> None:
    """Session counts along x, seconds along y."""
    axes = cliff_chart(points, title="t").axes[0]
    assert axes.get_yscale() == "log"
    for metric in TTFT:
        assert values(line(axes, metric), "x") == [1, 6, 10, 12, 14, 20, 48]
        assert values(line(axes, metric)) == [point[metric] for point in points]


def test_points_may_come_in_any_order(points: Rows) -> None:
    """They are sorted by session count."""
    axes = cliff_chart(points[::-1], title="t").axes[0]
    assert values(line(axes, "ttft_p99_s")) == [point["ttft_p99_s"] for point in points]


def test_throughput_has_the_right_axis(points: Rows) -> None:
    """Linear, labelled, from zero."""
    right = cliff_chart(points, title="t").axes[1]
    assert right.get_ylabel() == "requests/s"
    assert right.yaxis.get_label_position() == "right"
    assert (right.get_yscale(), right.get_ylim()[0]) == ("linear", 0)
    assert values(line(right, "requests_per_s")) == [point["requests_per_s"] for point in points]


def test_every_session_count_is_a_tick(points: Rows) -> None:
    """1, 6, 10, 12, 14, 20 and 48 are all readable."""
    assert ticks(cliff_chart(points, title="t")) == ["1", "6", "10", "12", "14", "20", "48"]


def test_a_dense_sweep_keeps_its_ends_and_its_knee_as_ticks() -> None:
    """Of 48 counts some are left out, never those."""
    dense = [{"sessions": n, "ttft_p99_s": 0.1 * n} for n in range(1, 49)]
    shown = ticks(cliff_chart(dense, title="t", knee_sessions=13))
    assert {"1", "13", "48"} <= set(shown)
    assert len(shown) < 20


def test_y_ticks_are_humane(points: Rows) -> None:
    """Milliseconds and seconds, not powers of ten."""
    figure = cliff_chart(points, title="t")
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert {"1 s", "10 s"} <= set(labels)
    assert not any("10^" in label or "e+" in label for label in labels)


def test_the_knee_is_a_dashed_line_with_a_label_and_shading(points: Rows) -> None:
    """At its session count, with its interval in words."""
    figure = cliff_chart(points, title="t", knee_sessions=14, knee_interval=(13, 16))
    axes = figure.axes[0]
    assert values(line(axes, "knee"), "x") == [14, 14]
    assert line(axes, "knee").is_dashed()
    assert "KV knee: 14 sessions (13 to 16 over seeds)" in words(figure)
    (shading,) = [patch for patch in axes.patches if patch.get_label() == "beyond"]
    assert shading.get_window_extent().x0 == pytest.approx(axes.transData.transform((14, 1))[0])


def test_without_a_knee_nothing_is_marked(points: Rows) -> None:
    """No line, no shading, no words."""
    figure = cliff_chart(points, title="t")
    assert "knee" not in words(figure)
    assert not [patch for patch in figure.axes[0].patches if patch.get_label() == "beyond"]


def test_published_figures_are_hollow_and_dashed_in_the_same_colour(points: Rows, published: Rows) -> None:
    """With a key that tells which is which."""
    figure = cliff_chart(points, title="t", published=published)
    for metric in TTFT:
        ours = line(figure.axes[0], metric)
        theirs = line(figure.axes[0], f"{metric} published")
        assert values(theirs) == [row[metric] for row in published]
        assert theirs.get_color() == ours.get_color()
        assert theirs.get_markerfacecolor() == "white"
        assert theirs.is_dashed()
    assert "published measurement" in words(figure)


def test_two_published_figures_are_not_joined(points: Rows, published: Rows) -> None:
    """A line between two points would claim a course nobody measured."""
    axes = cliff_chart(points, title="t", published=[published[0], published[-1]]).axes[0]
    assert line(axes, "ttft_p99_s published").get_linestyle() == "None"


def test_the_slo_is_a_dotted_line_in_view(points: Rows) -> None:
    """Even when it lies above everything drawn."""
    figure = cliff_chart(points, title="t", slo_ttft_p99_s=500)
    assert values(line(figure.axes[0], "limit")) == [500, 500]
    assert figure.axes[0].get_ylim()[1] > 500
    assert "SLO p99 ≤ 500 s" in words(figure)


def test_titles_and_provenance_are_printed_as_they_are(points: Rows) -> None:
    """Dollars are not mathematics, and long lines wrap inside the sheet."""
    prose = "costs $1 an hour, not $2; " * 12
    figure = cliff_chart(points, title="A $1 title", subtitle="sub", provenance=prose)
    with chart_style():
        figure.draw_without_rendering()
    assert {"A $1 title", "sub"} <= set(words(figure).split("\n"))
    assert not any(text.get_parse_math() for text in figure.findobj(Text))
    assert " ".join(prose.split()) in " ".join(words(figure).split())
    for text in figure.texts:
        assert text.get_window_extent().x1 <= figure.bbox.x1


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf, -1.0, 0.0, "n/a", True])
def test_what_is_not_known_leaves_a_gap(points: Rows, unknown: object) -> None:
    """The neighbours stand, the axis does not stretch."""
    limits = cliff_chart(points, title="t").axes[0].get_ylim()
    points[2]["ttft_p99_s"] = unknown
    del points[3]["ttft_p99_s"]
    axes = cliff_chart(points, title="t").axes[0]
    drawn = values(line(axes, "ttft_p99_s"))
    assert np.isnan(drawn).tolist() == [False, False, True, True, False, False, False]
    assert axes.get_ylim() == limits


def test_a_count_at_which_nothing_completed_keeps_its_tick(points: Rows) -> None:
    """And the curve's label claims no value there."""
    figure = cliff_chart([*points, {"sessions": 64, "ttft_p99_s": math.nan}], title="t")
    assert ticks(figure)[-1] == "64"
    assert "p99" in words(figure).split("\n")
    assert "p99  47.5 s" in words(cliff_chart(points, title="t")).split("\n")


@pytest.mark.parametrize("rows", [[], [{"sessions": 4}], [{"ttft_p99_s": 1.0}]])
def test_nothing_to_draw_is_said(rows: Rows) -> None:
    """An empty chart is words, not ticks around nothing."""
    figure = cliff_chart(rows, title="t", knee_sessions=4, published=())
    figure.draw_without_rendering()
    assert "no completed requests to draw" in words(figure)
    assert figure.axes[0].get_yticks().tolist() == []


def test_one_point_draws() -> None:
    """A run of a single session count is a chart too; its interval makes no band."""
    point = {"sessions": 8, "ttft_p99_s": 1.0, "ttft_p99_s_low": 0.5, "ttft_p99_s_high": 2.0}
    figure = cliff_chart([point], title="t", knee_sessions=8)
    figure.draw_without_rendering()
    assert ticks(figure) == ["8"]
    assert values(line(figure.axes[0], "ttft_p99_s")) == [1.0]
    assert "95 %" not in words(figure)


def test_an_interval_that_reaches_zero_keeps_the_axis(points: Rows) -> None:
    """A log axis has no zero: the band is cut, the scale stays."""
    limits = cliff_chart(points, title="t").axes[0].get_ylim()
    points[4]["ttft_p99_s_low"] = -3.0
    axes = cliff_chart(points, title="t").axes[0]
    assert axes.get_ylim() == limits
    assert min(corner[1] for corner in corners(axes.collections[2])) == limits[0]


def test_a_band_leaves_the_gaps_of_its_curve(points: Rows) -> None:
    """It bridges nothing."""
    points[3]["ttft_p99_s"] = None
    axes = cliff_chart(points, title="t").axes[0]
    assert {corner[0] for corner in corners(axes.collections[2])} == {1, 6, 10, 14, 20, 48}
    assert len(axes.collections[2].get_paths()) == 2


def test_one_seed_has_no_band(points: Rows) -> None:
    """And drawing none is no reason to warn."""
    for point in points:
        for name in [name for name in point if name.endswith(("_low", "_high"))]:
            point[name] = math.nan
    axes = compare_chart({"one": points}, title="t").axes[0]
    assert not axes.collections


def no_overlap(figure: Figure) -> bool:
    """Tell whether no two labels inside the axes overlap."""
    with chart_style():
        figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    return not any(one.overlaps(two) for i, one in enumerate(boxes) for two in boxes[i + 1 :])


@pytest.mark.parametrize("factors", [(1, 1, 1), (1, 1.01, 1.02), (1, 100, 101), (100, 1, 1)])
def test_labels_at_line_ends_keep_clear(points: Rows, factors: Sequence[float]) -> None:
    """However close the curves end."""
    for metric, factor in zip(TTFT, factors, strict=True):
        points[-1][metric] = factor
    assert no_overlap(cliff_chart(points, title="t", knee_sessions=14, slo_ttft_p99_s=1.0))


def test_compared_curves_have_their_own_look_and_knee(points: Rows, published: Rows) -> None:
    """Colour and marker tell curves apart; a knee has its curve's colour; no knee is no line."""
    slower = [{**point, "ttft_p99_s": 2 * point["ttft_p99_s"]} for point in points]
    figure = compare_chart(
        {"fp8": points, "fp16": slower},
        title="t",
        knees={"fp8": 14, "fp16": None, "unheard of": 3},
        published={"fp8": published, "fp16": [{"sessions": 1}]},
    )
    axes = figure.axes[0]
    fp8, fp16 = line(axes, "fp8: knee 14"), line(axes, "fp16")
    assert values(fp16) == [point["ttft_p99_s"] for point in slower]
    assert fp8.get_color() != fp16.get_color()
    assert fp8.get_marker() != fp16.get_marker()
    assert line(axes, "fp8 knee").get_color() == fp8.get_color()
    assert values(line(axes, "fp8 knee"), "x") == [14, 14]
    assert [each.get_label() for each in axes.lines if "knee" in str(each.get_label())] == ["fp8: knee 14", "fp8 knee"]
    assert values(line(axes, "ttft_p99_s published")) == [row["ttft_p99_s"] for row in published]
    assert legend(figure) == ["fp8: knee 14", "fp16", "95 % interval over seeds", "published measurement"]
    assert axes.get_ylabel() == "TTFT p99 (log scale)"


def test_what_is_not_drawn_is_not_in_the_legend(points: Rows) -> None:
    """Published figures of another metric are no published measurement of this one."""
    figure = compare_chart({"a": points}, title="t", published={"a": [{"sessions": 1, "ttft_p50_s": 1.0}]})
    assert legend(figure) == ["a", "95 % interval over seeds"]


def test_fourteen_curves_stay_readable(points: Rows) -> None:
    """Each with a look of its own, all named in a legend beside the axes, without lines for the knees."""
    names = [f"variant {i} with a name that is long" for i in range(14)]
    figure = compare_chart(dict.fromkeys(names, points), title="t", knees=dict.fromkeys(names, 14))
    axes, box = figure.axes[0], figure.axes[0].get_legend().get_window_extent()
    assert len({(each.get_color(), each.get_marker()) for each in axes.lines}) == len(axes.lines) == 14
    assert legend(figure) == [f"{name}: knee 14" for name in names]
    assert axes.bbox.x1 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0
    assert axes.bbox.width > figure.bbox.width / 2


def test_a_rate_is_compared_on_a_linear_axis(points: Rows) -> None:
    """Only durations are logarithmic."""
    axes = compare_chart({"fp8": points}, title="t", metric="requests_per_s").axes[0]
    assert (axes.get_yscale(), axes.get_ylim()[0], axes.get_ylabel()) == ("linear", 0, "requests/s")


def test_the_area_between_best_and_worst_follows_the_curves() -> None:
    """Filled where both are known, from one to the other."""
    best = [{"sessions": n, "ttft_p50_s": 0.1} for n in (1, 4, 9, 12)]
    worst = [{"sessions": n, "ttft_p50_s": float(n)} for n in (1, 4, 9, 16)]
    axes = bounds_chart({"best": best, "realistic": best, "worst": worst}, title="t").axes[0]
    (area,) = [each for each in axes.collections if each.get_label() == "between best and worst"]
    assert corners(area) == {(n, y) for n in (1, 4, 9) for y in (0.1, n)}
    assert [each.get_label() for each in axes.lines] == ["best", "realistic", "worst"]


def test_without_a_worst_case_nothing_is_filled(points: Rows) -> None:
    """Half a bound bounds nothing."""
    axes = bounds_chart({"best": points}, title="t").axes[0]
    assert not [each for each in axes.collections if each.get_label() == "between best and worst" and corners(each)]


@pytest.mark.parametrize("chart", [compare_chart, bounds_chart])
def test_curves_without_values_say_so(chart: Callable[..., Figure]) -> None:
    """No curve, or empty ones."""
    for curves in ({}, {"best": [], "worst": [{"sessions": 3, "ttft_p50_s": math.nan}]}):
        assert "no completed requests" in words(chart(curves, title="t"))


def test_charts_leave_no_settings_behind(points: Rows) -> None:
    """Neither reading the user's nor changing them."""
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(mpl.rcParams)
        axes = cliff_chart(points, title="t").axes[0]
        assert dict(mpl.rcParams) == before
    assert axes.get_facecolor() == (1, 1, 1, 1)


def test_a_limit_is_a_dotted_line_among_curves(points: Rows) -> None:
    """Its value is in the legend; it is in view."""
    figure = compare_chart({"fp8": points}, title="t", limit=500.0)
    assert values(line(figure.axes[0], "limit 500 s")) == [500, 500]
    assert figure.axes[0].get_ylim()[1] > 500
    assert "limit 500 s" in legend(figure)


@pytest.mark.parametrize(
    ("unit", "label"), [("sessions", "concurrent sessions"), ("sessions per burst", "sessions per burst")]
)
def test_the_axis_says_what_is_counted(points: Rows, unit: str, label: str) -> None:
    """And so does the knee."""
    figure = cliff_chart(points, title="t", knee_sessions=14, unit=unit)
    assert figure.axes[-1].get_xlabel() == f"{label} (square-root scale)"
    assert f"KV knee: 14 {unit}" in words(figure).split("\n")
    assert compare_chart({"a": points}, title="t", unit=unit).axes[0].get_xlabel().startswith(label)


def test_requests_of_a_trace_stand_at_their_arrival() -> None:
    """With percentiles and SLO across; who got no token is not drawn."""
    turns = [{"arrival_s": 0.5 * number, "first_token_s": 0.5 * number + 0.2} for number in range(4)]
    turns.append({"arrival_s": 9.0, "first_token_s": math.nan})
    figure = trace_chart(turns, {"ttft_p50_s": 0.2, "ttft_p99_s": 0.21}, title="t", slo_ttft_p99_s=2.0)
    (axes,) = figure.axes
    assert values(line(axes, "requests"), "x") == [0, 0.5, 1, 1.5, 9]
    assert values(line(axes, "requests"))[:4] == pytest.approx([0.2] * 4)
    assert math.isnan(values(line(axes, "requests"))[4])
    assert values(line(axes, "ttft_p99_s")) == [0.21, 0.21]
    assert {"p50  200 ms", "p99  210 ms", "SLO p99 ≤ 2 s"} <= set(words(figure).split("\n"))
    assert no_overlap(figure)
