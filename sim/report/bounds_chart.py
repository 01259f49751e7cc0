"""Best, realistic and worst case: where a workload can land between all cached and nothing cached."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.axes import signed_sqrt
from sim.report.compare_chart import Curves, draw_curves
from sim.report.marks import Floats, Look, column, has_intervals, key_marks
from sim.report.style import BLUE, CRIMSON, CURVES, GREEN, chart_style, sheet
from sim.results.points import Row, by_sessions

LOOKS = {"best": Look(GREEN, "o"), "realistic": Look(BLUE, "s"), "worst": Look(CRIMSON, "D")}


def bounds_chart(
    curves: Curves,
    *,
    title: str,
    metric: str = "ttft_p50_s",
    subtitle: str = "",
    published: Curves | None = None,
    limit: float | None = None,
    provenance: str = "",
) -> Figure:
    """Return the chart of one metric (seconds, log axis) for the curves named best, realistic and worst.

    The area between best and worst is filled where both are known. Other names are drawn as further curves;
    `published` rows are looked up by name.
    """
    simulated = {name: by_sessions(rows) for name, rows in curves.items()}
    measured = {name: by_sessions(rows) for name, rows in (published or {}).items()}
    names = list(dict.fromkeys([*simulated, *measured]))
    looks = {name: LOOKS.get(name, Look(CURVES[-1 - i % 4], "^")) for i, name in enumerate(names)}
    with chart_style():
        bands = has_intervals([row for rows in simulated.values() for row in rows], [metric])
        figure, axes = sheet(title, subtitle, provenance, key_marks(published=any(measured.values()), bands=bands))
        draw_curves(axes, simulated, measured, looks, metric, limit=limit)
        _fill_between(axes, simulated, metric)
    return figure


def _fill_between(axes: Axes, simulated: Mapping[str, Sequence[Row]], metric: str) -> None:
    """Fill between best and worst; the edges follow the drawn lines, straight on the chart's own scales."""
    best, worst = simulated.get("best", []), simulated.get("worst", [])
    if not best or not worst:
        return
    counts = np.union1d(column(best, "sessions"), column(worst, "sessions"))
    low, high = _on_scale(best, metric, counts), _on_scale(worst, metric, counts)
    axes.fill_between(counts, low, high, color=BLUE, alpha=0.07, linewidth=0, zorder=1, label="between best and worst")


def _on_scale(rows: Sequence[Row], metric: str, counts: Floats) -> Floats:
    """Return the drawn line's value at each count, interpolated as drawn; NaN outside and in gaps."""
    x, y = column(rows, "sessions"), column(rows, metric, positive=True)
    inner = np.interp(signed_sqrt(counts), signed_sqrt(x), np.log10(y), left=np.nan, right=np.nan)
    exact = dict(zip(x.tolist(), y.tolist(), strict=True))
    return np.array([exact.get(count, 10**value) for count, value in zip(counts.tolist(), inner, strict=True)])
