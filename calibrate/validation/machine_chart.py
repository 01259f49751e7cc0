"""Predicted over measured step times, a dot a step, with the band of the p90 limit around equality."""

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from calibrate.validation.machine_proof import KINDS, P90_LIMIT, Proof
from sim.report.style import AMBER, BLUE, FAINT, SAGE, SOFT, headings, sheet
from sim.units import seconds

_LOOKS = dict(zip(KINDS, ((BLUE, "o"), (AMBER, "s"), (SAGE, "D")), strict=True))
_ROOM = 1.25


def machine_chart(proof: Proof, *, provenance: str) -> Figure:
    """Return the chart; bars are the 95 % intervals of the measured medians."""
    times = [time_s for step in proof.steps for time_s in (step.measured.median_s, step.predicted_s)]
    ends = (min(times) / _ROOM, max(times) * _ROOM)
    with sheet(provenance) as figure:
        axes = figure.add_subplot()
        band = [[end * (1 + sign * P90_LIMIT) for end in ends] for sign in (-1, 1)]
        axes.fill_between(ends, band[0], band[1], color=FAINT, alpha=0.3, linewidth=0, label=f"within {P90_LIMIT:.0%}")
        axes.plot(ends, ends, color=SOFT, linewidth=1)
        for kind, (color, marker) in _LOOKS.items():
            own = [step for step in proof.steps if step.batch.kind == kind]
            x, y = [step.measured.median_s for step in own], [step.predicted_s for step in own]
            axes.scatter(x, y, s=26, color=color, marker=marker, linewidths=0, label=kind, zorder=3)
            for step in own:
                if step.measured.low_s is not None and step.measured.high_s is not None:
                    axes.plot(
                        [step.measured.low_s, step.measured.high_s], [step.predicted_s] * 2, color=color, linewidth=1
                    )
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured", ylabel="predicted")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
        axes.grid(visible=True, axis="both")
        key = axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
        found = next(summary for summary in proof.summaries() if summary.steps == "all")
        title = "Steps of a real transformer, predicted from its operations"
        headings(axes, key, title, f"{proof.machine}: |error| {found.median:.1%} in the median, {found.p90:.1%} at p90")
    return figure
