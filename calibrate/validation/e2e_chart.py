"""Predicted against measured, every load level a dot, on log axes, with the identity and a band of 20 % around it."""

from collections.abc import Sequence
from itertools import cycle

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from calibrate.validation.e2e_errors import ReplayedPoint
from calibrate.validation.e2e_regimes import BELOW
from sim.report.style import FAINT, SOFT, sheet

BAND = 0.2
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#22272e")  # Okabe and Ito
_PANELS = (
    ("TTFT, median (s)", ("ttft_p50_s", "ttft_mean_s")),
    ("TPOT (s)", ("tpot_mean_s", "tpot_p50_s", "itl_p50_s")),
    ("requests a second", ("requests_per_s",)),
)


def e2e_chart(points: Sequence[ReplayedPoint], provenance: str = "") -> Figure:
    """Return the chart: filled dots stand below the knee, open ones at or beyond it."""
    colors = dict(zip(dict.fromkeys(point.source for point in points), cycle(_COLORS)))
    with sheet(provenance, width_in=12.0) as figure:
        for place, (title, metrics) in enumerate(_PANELS, start=1):
            axes = figure.add_subplot(1, len(_PANELS), place)
            drawn: list[float] = []
            for point in points:
                metric = next((name for name in metrics if point.error(name) is not None), None)
                if metric is None or point.predicted[metric] <= 0:
                    continue
                x, y, color = point.measured[metric], point.predicted[metric], colors[point.source]
                drawn += [x, y]
                face = color if point.regime == BELOW else "none"
                axes.scatter(x, y, s=22, edgecolors=color, facecolors=face, linewidths=1, zorder=3)
            axes.set_title(title, loc="left", size=10)
            axes.set_xlabel("measured")
            axes.set_ylabel("predicted" if place == 1 else "")
            if not drawn:
                continue
            low, high = min(drawn) / 1.5, max(drawn) * 1.5
            axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), box_aspect=1)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(LogLocator(subs=(1, 3)))
                axis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.grid(visible=True, axis="both")
            axes.plot([low, high], [low, high], color=SOFT, linewidth=1)
            axes.fill_between(
                [low, high], [low * (1 - BAND), high * (1 - BAND)], [low * (1 + BAND), high * (1 + BAND)],
                color=FAINT, alpha=0.3, linewidth=0,
            )  # fmt: skip
        handles = [figure.axes[0].scatter([], [], s=22, color=color, label=name) for name, color in colors.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=min(8, max(1, len(handles))))
    return figure
