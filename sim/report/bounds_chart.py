"""Best, realistic and worst case: where a workload can land between all cached and nothing cached."""

from matplotlib.figure import Figure

from sim.report.compare_chart import Curves, compare_chart
from sim.report.marks import column
from sim.report.style import BLUE
from sim.results.points import by_sessions, number


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
    """Return compare_chart of the curves, the area between those named best and worst filled."""
    known = {name: by_sessions(rows) for name, rows in curves.items()}
    figure = compare_chart(
        known,
        title=title,
        metric=metric,
        subtitle=subtitle,
        published=published,
        limit=limit,
        provenance=provenance,
    )
    best, worst = ({number(row, "sessions"): row for row in known.get(name, [])} for name in ("best", "worst"))
    shared = sorted(best.keys() & worst.keys())
    low, high = (column((rows[count] for count in shared), metric) for rows in (best, worst))
    figure.axes[0].fill_between(shared, low, high, color=BLUE, alpha=0.07, linewidth=0, label="between best and worst")
    return figure
