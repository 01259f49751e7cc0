"""What a comparison prints: assumptions, predicted beside measured, errors, and what each re-fitted term removes."""

from collections.abc import Iterable, Mapping, Sequence

import click

from calibrate.compare.errors import ErrorRow, error_rows, median_error
from calibrate.compare.explain import Verdict
from calibrate.compare.points import Point

_TITLES = {"requests_per_s": "requests/s", "output_tokens_per_s": "tokens/s"}
_IN_MS = ("tpot", "itl")
_SHOWN = (
    ("ttft_p50_s", "ttft_mean_s"),
    ("ttft_p99_s", "ttft_p95_s", "ttft_p90_s"),
    ("tpot_p50_s", "tpot_mean_s", "itl_p50_s", "itl_mean_s"),
    ("e2e_p50_s", "e2e_mean_s"),
    ("requests_per_s", "output_tokens_per_s"),
)


def print_notes(notes: Iterable[str]) -> None:
    """Print what was assumed and left out, each once."""
    for note in dict.fromkeys(notes):
        click.echo(f"  - {note}")


def print_points(points: Sequence[Point]) -> None:
    """Print a row a load point: predicted / measured and the error of the main metrics, and the regime."""
    chosen = [_first(points, metrics) for metrics in _SHOWN]
    columns = [metric for metric in chosen if metric is not None]
    rows = [(point.label, point.regime.name, *(_cell(point, metric) for metric in columns)) for point in points]
    _table("Predicted / measured (error)", ("load", "regime", *map(_heading, columns)), rows)
    for point in points:
        if point.regime.why:
            click.echo(f"  {point.label}: {point.regime.name} the knee; {point.regime.why}")


def print_groups(rows: Sequence[ErrorRow], misfits: Mapping[str, float]) -> None:
    """Print the median error and how far each group of metrics is off."""
    off = ", ".join(f"{group} {factor:.2f}" for group, factor in misfits.items())
    click.echo(f"\nmedian |error| {median_error(rows):.1%} over {len(rows)} figures; typical factor off: {off}")


def print_verdict(verdict: Verdict, notes: Iterable[str]) -> None:
    """Print what each term removes, and what explains the gap."""
    rows = [
        (
            one.term.title,
            "-" if one.idle else one.shown,
            "changes nothing here" if one.idle else f"{verdict.removed(one):.0%}",
        )
        for one in verdict.ranked
    ]
    _table("One term re-fitted at a time", ("term", "best value", "removes of the error"), rows)
    click.echo(f"cause: {verdict.sentence}")
    print_notes(notes)


def point_rows(points: Sequence[Point]) -> list[dict[str, object]]:
    """Return a flat row a metric and load point, for files and machines."""
    return [
        {
            "load": point.label,
            "level": point.sent.arrivals.level,
            "unit": point.sent.arrivals.unit,
            "regime": point.regime.name,
            "metric": row.metric,
            "measured": row.measured,
            "predicted": row.predicted,
            "error": row.error,
            "file": str(point.run.file),
            "place": point.run.place,
        }
        for point in points
        for row in error_rows([point.measured], [point.predicted])
    ]


def title(metric: str) -> str:
    """Return a metric as a heading: `TTFT p50`."""
    if metric in _TITLES:
        return _TITLES[metric]
    name, statistic, _ = metric.split("_")
    return f"{name.upper()} {statistic}"


def _first(points: Sequence[Point], metrics: Sequence[str]) -> str | None:
    return next((one for one in metrics if any(point.measured.get(one, 0.0) > 0 for point in points)), None)


def _cell(point: Point, metric: str) -> str:
    ours, theirs = point.measured.get(metric, 0.0), point.predicted.get(metric)
    if not ours:
        return ""
    scale = 1e3 if metric.startswith(_IN_MS) else 1.0
    if theirs is None:
        return f"- / {_digits(scale * ours)}"
    return f"{_digits(scale * theirs)} / {_digits(scale * ours)}  {theirs / ours - 1:+.0%}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _heading(metric: str) -> str:
    unit = "" if metric.endswith("per_s") else ", ms" if metric.startswith(_IN_MS) else ", s"
    return f"{title(metric)}{unit}"


def _table(heading: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    console.width = max(console.width, 140)
    shown = Table(*headings, title=heading, title_justify="left", box=box.SIMPLE_HEAD)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
