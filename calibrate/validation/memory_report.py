"""The ledger's scores as tables for people, a page, and one JSON object for machines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from calibrate.validation.memory_scores import Score
from sim.report.trimmed import Trimmed
from sim.units import GIB

_TOKENS_WITHIN = 0.002


@dataclass(frozen=True, slots=True)
class Bar:
    """One demand on all cases it can be asked of."""

    name: str
    met: int
    of: int
    share: float  # of them that must meet it

    @property
    def holds(self) -> bool:
        """Whether enough cases meet it."""
        return self.met >= self.share * self.of

    def __str__(self) -> str:
        """Return `tokens within 0.2 %: 30 of 31, 97% (95% asked)`."""
        return f"{self.name}: {self.met} of {self.of}, {_share(self):.0%} ({self.share:.0%} asked)"


def bars(scores: Sequence[Score]) -> list[Bar]:
    """Return what the cases are held against."""
    errors = [abs(score.kv_error) for score in scores if score.kv_error is not None]
    covered = [_covers(score) for score in scores if score.kv_error is not None]
    return [
        _bar(
            "tokens of uniform models within 0.2 %",
            [
                abs(error) <= _TOKENS_WITHIN
                for error in _each(scores, lambda s: s.token_error if s.is_uniform else None)
            ],
            0.95,
        ),
        _bar(
            "concurrency of mixed models to the printed digits, as the printed KV memory leaves open",
            _each(scores, lambda s: None if s.is_uniform else s.concurrency_within_rounding),
            0.80,
        ),
        _bar("starts or refuses as the engine did", _each(scores, lambda s: s.same_verdict), 1.0),
        _bar("largest max_model_len within a block", [off <= 1 for off in _each(scores, lambda s: s.blocks_off)], 0.90),
        _bar("KV memory from GPU, model and flags within 10 %", [error <= 0.10 for error in errors], 0.50),
        _bar("KV memory from GPU, model and flags within 25 %", [error <= 0.25 for error in errors], 0.90),
        _bar("KV memory inside the printed range", covered, 0.90),
    ]


def bar_table(scores: Sequence[Score]) -> str:
    """Return the bars as a Markdown table."""
    rows = [f"| {bar.name} | {bar.share:.0%} | {bar.met} of {bar.of} | {_share(bar):.0%} |" for bar in bars(scores)]
    return "\n".join(["| over all cases that tell | asked | met | share |", "|---|---|---|---|", *rows])


def print_report(console: Console, scores: Sequence[Score], left_out: Mapping[str, str]) -> None:
    """Print the bars, the table, and what could not be asked."""
    for bar in bars(scores):
        console.print(f"{'holds ' if bar.holds else 'MISSED'}  {bar}", markup=False)
    console.print()
    for table in (_token_table(scores), _verdict_table(scores), _reserve_table(scores)):
        console.print(Trimmed(table, console.width))
        console.print()
    console.print(f"Not asked, {len(left_out)} cases:", markup=False)
    for name, why in left_out.items():
        console.print(f"  {name}: {why}", markup=False)
    console.print()
    for score in scores:
        if score.case.chosen:
            console.print(f"Chosen in {score.case.id}: {score.case.chosen}", markup=False)


def report_json(scores: Sequence[Score], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return everything in plain types."""
    return {
        "bars": [
            {"name": bar.name, "met": bar.met, "of": bar.of, "share": bar.share, "holds": bar.holds}
            for bar in bars(scores)
        ],
        "cases": [_case_json(score) for score in scores],
        "left_out": dict(left_out),
    }


def _token_table(scores: Sequence[Score]) -> Table:
    """Return the tokens that follow from the printed KV memory, beside the one-line formula."""
    table = _empty_table("Tokens from the printed KV memory", "KV GiB", "printed", "ours", "off", "formula off")
    for score in scores:
        case, ledger = score.case, score.given
        if ledger is None or (case.tokens is None and score.formula_error is None):
            continue
        table.add_row(
            _name(score),
            f"{ledger.kv_bytes / GIB:.2f}",
            _number(case.tokens),
            _number(ledger.kv_cache_tokens if case.tokens is not None else None),
            _percent(score.token_error, 2),
            _percent(score.formula_error, 1),
        )
    return table


def _verdict_table(scores: Sequence[Score]) -> Table:
    """Return concurrency and verdicts that follow from the printed KV memory."""
    table = _empty_table("Concurrency and verdicts from the printed KV memory", "printed", "ours", "verdict")
    for score in scores:
        case, ledger = score.case, score.given
        if ledger is None or (case.max_concurrency is None and score.same_verdict is None):
            continue
        table.add_row(
            _name(score),
            "" if case.max_concurrency is None else f"{case.max_concurrency:g}",
            "" if case.max_concurrency is None else f"{ledger.max_concurrency:.{case.concurrency_digits + 1}f}",
            {None: "", True: "same", False: "OTHER"}[score.same_verdict],
        )
    return table


def _reserve_table(scores: Sequence[Score]) -> Table:
    """Return the KV memory that is predicted from GPU, model and flags alone."""
    table = _empty_table(
        "KV memory from GPU, model and flags alone, GiB", "printed", "predicted", "off", "range", "inside"
    )
    for name in ("GPU", "widest term"):
        table.add_column(name, overflow="fold")
    for score in scores:
        seen, ledger = score.seen_kv_bytes, score.predicted
        if ledger is None or seen is None:
            continue
        span = ledger.rank.kv_bytes
        table.add_row(
            _name(score),
            f"{seen / GIB:.2f}",
            f"{ledger.kv_bytes / GIB:.2f}",
            _percent(score.kv_error, 1),
            f"{span.low / GIB:.1f} to {span.high / GIB:.1f}",
            "yes" if _covers(score) else "NO",
            ledger.gpu,
            ledger.widest_term,
        )
    return table


def _empty_table(title: str, *figures: str) -> Table:
    """Return a table of cases. Names wrap where the terminal is narrow; figures never do, nor are they cut."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("case", overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _name(score: Score) -> str:
    return score.case.id + ("*" if score.case.chosen else "")


def _covers(score: Score) -> bool:
    span, seen = score.kv_range, score.seen_kv_bytes
    return span is not None and seen is not None and span.low <= seen <= span.high


def _each(scores: Sequence[Score], quantity: Callable[[Score], Any]) -> list[Any]:
    return [found for score in scores if (found := quantity(score)) is not None]


def _bar(name: str, verdicts: Sequence[bool], share: float) -> Bar:
    return Bar(name, sum(verdicts), len(verdicts), share)


def _share(bar: Bar) -> float:
    return bar.met / bar.of if bar.of else 1.0


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _percent(value: float | None, digits: int) -> str:
    return "" if value is None else f"{100 * value:+.{digits}f} %"


def _case_json(score: Score) -> dict[str, Any]:
    case, span = score.case, score.kv_range
    return {
        "id": case.id,
        "model": case.model.name,
        "gpus": [gpu.name for gpu in case.gpus],
        "chosen": case.chosen or None,
        "uniform": score.is_uniform,
        "kv_bytes_printed": score.seen_kv_bytes,
        "kv_bytes_predicted": None if score.predicted is None else score.predicted.kv_bytes,
        "kv_bytes_low": None if span is None else span.low,
        "kv_bytes_high": None if span is None else span.high,
        "tokens_printed": case.tokens,
        "tokens": None if score.given is None else score.given.kv_cache_tokens,
        "max_concurrency_printed": case.max_concurrency,
        "max_concurrency": None if score.given is None else score.given.max_concurrency,
        "concurrency_as_printed": score.concurrency_as_printed,
        "concurrency_within_rounding": score.concurrency_within_rounding,
        "same_verdict": score.same_verdict,
        "blocks_off": score.blocks_off,
        "formula_error": score.formula_error,
    }
