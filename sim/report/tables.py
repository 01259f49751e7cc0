"""Results in the terminal, as rich renderables: a sweep, a comparison with published figures, sensitivities.

They fit 80 columns, carry what matters in text as well as in colour, and rich drops the colour when piped.
Importing this loads rich.
"""

import math
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sim.results.metrics import NOT_ANSWERED
from sim.results.points import Row, by_sessions, humane, interval, metric_title, number
from sim.results.published_errors import COMPARED, CellError, cell_errors, median_error, published_cells

GOOD, FAIR = 0.10, 0.30
NOISE = 1e-4
TTFT = ("ttft_p50_s", "ttft_p95_s", "ttft_p99_s")
OTHERS = {
    "requests_per_s": "req/s",
    "output_tokens_per_s": "tok/s",
    "prefix_hit_rate": "hit\nrate",
    "preemptions": "pre-\nempt",
    "reprefilled_tokens": "re-pre-\nfilled",
    "kv_usage_peak": "KV\npeak",
}
SESSIONS = "ses-\nsions"
REQUESTS = "re-\nquests"
SHARES = ("prefix_hit_rate", "kv_usage_peak")
SHORT_COUNTS = ("preemptions", "reprefilled_tokens")


def points_table(
    points: Iterable[Row], published: Iterable[Row] = (), knee_sessions: float | None = None, *, trace: bool = False
) -> Table:
    """Return a table of a sweep, a row a session count; durations with the half-width of their interval.

    The knee's row is bold and starred. A published figure stands dim below the simulated one. A `trace` has no session
    counts; its only row begins with the requests it answered.
    """
    rows = by_sessions(points)
    measured = {number(row, "sessions"): row for row in by_sessions(published)}
    shown_knee = None if trace else knee_sessions
    table = _table(REQUESTS if trace else SESSIONS, caption=_caption(rows, shown_knee, has_published=bool(measured)))
    for metric in TTFT:
        table.add_column(metric_title(metric), justify="right")
    for title in OTHERS.values():
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        sessions = number(row, "sessions")
        at_knee = sessions == shown_knee
        first = f"{number(row, 'requests'):,.0f}" if trace else f"{'*' if at_knee else ''}{sessions:g}"
        table.add_row(first, *_cells(row), style="bold" if at_knee else None)
        if sessions in measured:
            table.add_row("publ.", *_published_cells(measured[sessions]), style="dim")
    return table


def _table(first: str, caption: str | Text = "", title: str = "") -> Table:
    """Return an empty table whose first column holds session counts or settings."""
    table = Table(
        title=title or None,
        caption=caption or None,
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption_justify="left",
        title_justify="left",
        pad_edge=False,
    )
    table.add_column(first, justify="right", no_wrap=True)
    return table


def _caption(rows: Sequence[Row], knee_sessions: float | None, *, has_published: bool) -> str:
    """Return what the table needs said: the knee, requests that have no TTFT, what dim rows are."""
    notes = []
    if knee_sessions is not None:
        notes.append(f"* KV knee: {knee_sessions:g} sessions")
    for key in ("refused", *NOT_ANSWERED, "unfinished"):
        total = sum(number(row, key) for row in rows if number(row, key) > 0)
        if total:
            notes.append(f"{total:,.0f} {'request' if total == 1 else 'requests'} {key}")
    if has_published:
        notes.append("publ. = published")
    return "; ".join(notes)


def _cells(row: Row) -> list[Text]:
    return [_duration(row, metric) for metric in TTFT] + [Text(_plain(row, metric)) for metric in OTHERS]


def _published_cells(row: Row) -> list[str]:
    return [_plain(row, metric) if not math.isnan(number(row, metric)) else "" for metric in (*TTFT, *OTHERS)]


def _duration(row: Row, metric: str) -> Text:
    """Return `38.9 s` and, dim, `±3.1`, in the same unit."""
    value, known = number(row, metric), interval(row, metric)
    text = Text(humane(value, metric))
    if not math.isnan(value) and not math.isnan(known.low):
        half = (known.high - known.low) / 2
        if half < NOISE * value:  # seeds agree to the last digit shown
            return text
        text.append(f" ±{_short(half * 1e3 if value < 0.9995 else half)}", style="dim")
    return text


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"


def _plain(row: Row, metric: str) -> str:
    """Return a metric as text: shares in percent, large counts in thousands and millions."""
    value = number(row, metric)
    if math.isnan(value):
        return "-"
    if metric in SHARES:
        return f"{value:.0%}"
    if metric in SHORT_COUNTS:
        return _count(value)
    return humane(value, metric)


def _count(value: float) -> str:
    """Return `850`, `12.8 k` or `1.23 M`; means over seeds may be fractions."""
    for factor, unit in ((1e6, " M"), (1e3, " k")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g}{unit}" if value < factor * 999.5 else f"{value / factor:,.0f}{unit}"
    return f"{value:.3g}"


def published_table(points: Iterable[Row], published: Iterable[Row]) -> Group:
    """Return predicted beside published figures, the error below in percent, and the median error.

    Up to 10 % is green, up to 30 % yellow, more is red.
    """
    ours, theirs = list(points), by_sessions(published)
    cells = {(cell.sessions, cell.metric): cell for cell in cell_errors(ours, theirs)}
    metrics = [metric for metric in COMPARED if any(number(row, metric) > 0 for row in theirs)]
    table = _table(SESSIONS, title="predicted / published")
    for metric in metrics:
        table.add_column(metric_title(metric), justify="right", no_wrap=True)
    for row in theirs:
        sessions = number(row, "sessions")
        table.add_row(f"{sessions:g}", *(_compared(row, metric, cells.get((sessions, metric))) for metric in metrics))
    return Group(table, _verdict(median_error(ours, theirs), len(cells), published_cells(theirs)))


def _compared(row: Row, metric: str, cell: CellError | None) -> Text:
    """Return `1.33 / 1.19 s` over `+12 %`."""
    if cell is None:
        theirs = number(row, metric)
        return Text("" if math.isnan(theirs) else f"- / {humane(theirs, metric)}", style="dim")
    text = Text(f"{humane(cell.predicted, metric)} / {humane(cell.published, metric)}\n")
    return text.append(_percent(cell.error), style=_color(cell.error))


def _percent(error: float) -> str:
    return f"{error * 100:+,.0f} %".replace("-0 %", "0 %").replace("+0 %", "0 %")


def _color(error: float) -> str:
    return "green" if abs(error) <= GOOD else "yellow" if abs(error) <= FAIR else "red"


def _verdict(error: float | None, compared: int, total: int) -> Text:
    """Return the line below the table."""
    if error is None:
        return Text(f"none of {total} published figures has a prediction")
    text = Text("median |error| ")
    text.append(f"{error:.1%}".replace("%", " %"), style=f"bold {_color(error)}")
    return text.append(f" over {compared} of {total} published figures")


def sensitivity_table(rows: Iterable[Row], sessions: float) -> Table:
    """Return what changing one setting does at a session count, a row a setting, in the order given.

    `change` is text, or a relative change (0.1 is +10 %). `knee_sessions` None means no knee in the sweep.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("setting", overflow="fold")
    for title in ("KV knee", f"TTFT p99 at {sessions:g}", f"requests/s at {sessions:g}"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("change", justify="right", overflow="fold")
    for row in rows:
        knee, change = number(row, "knee_sessions"), number(row, "change")
        table.add_row(
            Text(str(row.get("setting", ""))),
            "none" if math.isnan(knee) else f"{knee:g}",
            humane(number(row, "ttft_p99_s"), "ttft_p99_s"),
            humane(number(row, "requests_per_s"), "requests_per_s"),
            Text(str(row.get("change") or "")) if math.isnan(change) else _percent(change),
        )
    return table


def comparison_table(rows: Iterable[Row]) -> Table:
    """Return several scenarios side by side: capacity, the division by hand, knee and SLO capacity.

    Published figures stand in brackets behind ours; None is unknown or, for our knee, none in the sweep.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption="(published)")
    table.add_column("scenario", overflow="fold")
    for title in ("KV tokens", "by hand", "KV knee", "SLO capacity"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(str(row.get("scenario", ""))),
            f"{number(row, 'kv_cache_tokens'):,.0f}",
            _beside(row, "by_hand", "published_by_hand", ".1f"),
            _beside(row, "knee_sessions", "published_knee_sessions", "g"),
            _beside(row, "slo_sessions", "published_slo_sessions", "g"),
        )
    return table


def _beside(row: Row, ours: str, theirs: str, form: str) -> str:
    own, published = number(row, ours), number(row, theirs)
    text = "none" if math.isnan(own) else format(own, form)
    return text if math.isnan(published) else f"{text} ({published:g})"
