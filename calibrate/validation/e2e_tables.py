"""The replay's tables as plain cells: for the terminal, the page and nobody's arithmetic."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calibrate.validation.e2e_clients import Client
from calibrate.validation.e2e_errors import LimitRow, ReplayedPoint
from calibrate.validation.e2e_regimes import REGIMES
from calibrate.validation.e2e_replay import Replayed

SHOWN = (  # title, metrics of which the first that was measured is shown
    ("TTFT mean", ("ttft_mean_s",)),
    ("TTFT p50", ("ttft_p50_s",)),
    ("TTFT p99", ("ttft_p99_s", "ttft_p95_s")),
    ("TPOT", ("tpot_mean_s", "tpot_p50_s", "itl_mean_s", "itl_p50_s")),
    ("E2E", ("e2e_mean_s", "e2e_p50_s")),
    ("req/s", ("requests_per_s",)),
)


class Table(NamedTuple):
    """Cells under headings."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def limits_table(rows: Iterable[LimitRow]) -> Table:
    """Return each limit at each source and whether it was held."""
    headings = ("source", "regime", "metric", "loads", "median |error|", "bias", "limit", "held")
    cells = [
        (
            row.source,
            row.limit.regime,
            row.limit.name,
            str(row.loads),
            _percent(row.median_error),
            _signed(row.bias),
            _percent(row.limit.error),
            "yes" if row.held else "no",
        )
        for row in rows
    ]
    return Table("Median errors and their limits", headings, cells)


def errors_table(points: Sequence[ReplayedPoint]) -> Table:
    """Return the signed errors of every load level."""
    rows = [
        (point.experiment, point.label, point.regime, *(_error(point, metrics) for _, metrics in SHOWN))
        for point in points
    ]
    return Table("Predicted / measured - 1", ("experiment", "load", "regime", *(title for title, _ in SHOWN)), rows)


def values_table(points: Sequence[ReplayedPoint]) -> Table:
    """Return measured and predicted values of every load level."""
    rows = [
        (point.experiment, point.label, point.regime, *(_pair(point, metrics) for _, metrics in SHOWN))
        for point in points
    ]
    return Table("Measured > predicted", ("experiment", "load", "regime", *(title for title, _ in SHOWN)), rows)


def medians_table(rows: Iterable[dict[str, object]]) -> Table:
    """Return the medians by source, regime and metric."""
    headings = ("source", "regime", "metric", "loads", "median |error|", "bias")
    cells = [
        (
            str(row["source"]),
            str(row["regime"]),
            str(row["metric"]),
            str(row["loads"]),
            _percent(float(str(row["median_abs_error"]))),
            _signed(float(str(row["median_error"]))),
        )
        for row in rows
    ]
    return Table("By source, regime and metric", headings, cells)


def totals_table(points: Sequence[ReplayedPoint]) -> Table:
    """Return how many load levels stand in each regime, by source."""
    sources = list(dict.fromkeys(point.source for point in points))
    rows = [
        (source, *(str(sum(p.source == source and p.regime == where for p in points)) for where in REGIMES))
        for source in sources
    ]
    everywhere = ("all", *(str(sum(point.regime == where for point in points)) for where in REGIMES))
    rows.append(everywhere)
    return Table("Load levels by regime", ("source", *REGIMES), rows)


def deployments_table(points: Sequence[ReplayedPoint]) -> Table:
    """Return what priced each experiment and what was assumed."""
    one_each = {point.experiment: point for point in reversed(points)}
    rows = [
        (point.experiment, point.gpu, point.model, point.profile, "; ".join(point.notes) or "-")
        for point in reversed(one_each.values())
    ]
    return Table("Deployments", ("experiment", "GPU", "model", "step times", "assumed"), rows)


def skipped_table(replayed: Iterable[Replayed]) -> Table:
    """Return what was not replayed, and why."""
    rows = [(one.experiment.id, one.skipped) for one in replayed if one.skipped is not None]
    return Table("Not replayed", ("experiment", "reason"), rows)


def clients_table(clients: Iterable[tuple[str, Client]]) -> Table:
    """Return the overheads in use."""
    rows = [(source, f"{client.per_request_s * 1e3:.2f} ms", client.derived) for source, client in clients]
    return Table("Client overheads, one number a source", ("source", "a request", "derived"), rows)


def _first(point: ReplayedPoint, metrics: Sequence[str]) -> str | None:
    return next((metric for metric in metrics if point.error(metric) is not None), None)


def _error(point: ReplayedPoint, metrics: Sequence[str]) -> str:
    metric = _first(point, metrics)
    return "" if metric is None else _signed(point.error(metric) or 0.0)


def _pair(point: ReplayedPoint, metrics: Sequence[str]) -> str:
    metric = _first(point, metrics)
    if metric is None:
        return ""
    show = _seconds if metric.endswith("_s") and not metric.endswith("per_s") else "{:.4g}".format
    return f"{show(point.measured[metric])} > {show(point.predicted[metric])}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.4g} ms" if value < 1 else f"{value:.4g} s"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %"
