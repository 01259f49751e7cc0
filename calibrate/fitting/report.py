"""What a fit found, as tables for people and as one object for machines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from calibrate.fitting.job import Fitted
from calibrate.fitting.terms import terms_of
from sim.steptime.profile import Term


def as_dict(fitted: Fitted, out: Path | None) -> dict[str, Any]:
    """Return everything worth keeping, ready for JSON."""
    profile = fitted.profile
    fit, anchored = fitted.fit, fitted.anchored
    return {
        "profile": profile.name,
        "gpu": profile.gpu,
        "file": None if out is None else str(out),
        "terms": {name: _plain(term) for name, term in terms_of(profile)},
        "groups": {} if fit is None else {group.group.name: _finite(group.summary) for group in fit.groups},
        "steps": {} if fit is None else {kind: _errors(values) for kind, values in fit.step_errors().items()},
        "unfitted": [] if fit is None else list(fit.unfitted),
        "kernels": {} if fit is None else {question: dict(answers) for question, answers in fit.kernels.items()},
        "slower_than_5_bounds": sum(int(one.counts["slow"].sum()) for one in fitted.converted),
        "rejected": [f"{one.path.name}: {row}" for one in fitted.converted for row in one.table.rejected],
        "anchors": {}
        if anchored is None
        else {
            label: {"given": given, "before": before, "after": after}
            for label, (given, before, after) in anchored.figures.items()
        },
        "missed": [] if anchored is None else anchored.missed(),
        "verdicts": {} if anchored is None else dict(_verdicts(fitted)),
        "sources": profile.provenance.sources,
    }


def print_report(fitted: Fitted, out: Path | None, *, every_term: bool = False) -> None:
    """Print tables to the terminal; of the terms those that were fitted, or every one."""
    console = Console()
    if fitted.fit is not None:
        console.print(_groups(fitted))
    if fitted.anchored is not None:
        console.print(_anchors(fitted))
        console.print(_determined(fitted))
    console.print(_terms(fitted, every_term=every_term))
    rejected = [(one.path.name, row) for one in fitted.converted for row in one.table.rejected]
    if rejected:
        name, first = rejected[0]
        console.print(f"{len(rejected)} rows rejected, e.g. {name} line {first.line}: {first.reason}", style="yellow")
    if fitted.fit is not None and fitted.fit.unfitted:
        console.print(
            f"not fitted, too few rows: {', '.join(fitted.fit.unfitted)}; their terms stay assumed. "
            "Measure longer: the same calibrate command with a larger --budget-minutes",
            style="yellow",
        )
    slow = sum(int(one.counts["slow"].sum()) for one in fitted.converted)
    if slow:
        console.print(f"{slow} rows are more than 5 times slower than the hardware's bound; they were kept")
    if fitted.anchored is not None:
        for line in fitted.anchored.missed():
            console.print(line, style="yellow")
    console.print(f"profile {fitted.profile.name}" + ("" if out is None else f" written to {out}"), style="bold")
    if out is not None:
        console.print(f"next: kvcliff run SCENARIO --set profile={out}, with gpu: {fitted.profile.gpu}")


def _groups(fitted: Fitted) -> Table:
    assert fitted.fit is not None
    table = Table(title=f"Errors, |predicted / measured - 1|: {fitted.profile.gpu}", title_justify="left")
    for heading in ("rows of", "rows", "median", "p90", "folds left out", "contexts left out"):
        table.add_column(heading, justify="left" if heading == "rows of" else "right")
    for group in fitted.fit.groups:
        of = group.summary
        shares = [of[key] for key in ("median", "p90", "k_fold_median", "context_left_out_median")]
        table.add_row(
            group.group.name, f"{of['rows']:.0f}", *("" if np.isnan(share) else f"{share:.1%}" for share in shares)
        )
    for question, answers in fitted.fit.kernels.items():
        for answer, error in answers.items():
            table.add_row(f"{question}: {answer}", "", f"{error:.1%}", "", "", "")
    for kind, errors in fitted.fit.step_errors().items():
        of = _errors(errors)
        table.add_row(f"{kind} steps", f"{of['rows']:.0f}", f"{of['median']:.1%}", f"{of['p90']:.1%}", "", "")
    return table


def _anchors(fitted: Fitted) -> Table:
    assert fitted.anchored is not None
    table = Table(title="Anchors", title_justify="left")
    for heading in ("figure", "given", "before", "after", "off by"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for label, (given, before, after) in fitted.anchored.figures.items():
        table.add_row(label, f"{given:.4g}", f"{before:.4g}", f"{after:.4g}", f"{after / given - 1:+.1%}")
    return table


def _determined(fitted: Fitted) -> str:
    by_verdict: dict[str, list[str]] = {}
    for name, verdict in _verdicts(fitted):
        by_verdict.setdefault(verdict, []).append(name)
    none = by_verdict.pop("not determined", [])
    lines = [f"{verdict} by the anchors: {', '.join(names)}" for verdict, names in by_verdict.items()]
    return "\n".join([*lines, f"not determined by the anchors: {len(none)} other terms"])


def _verdicts(fitted: Fitted) -> Iterator[tuple[str, str]]:
    assert fitted.anchored is not None
    refined = fitted.anchored.refined
    for name in refined.kept_width:
        yield name, refined.verdict(name)


def _terms(fitted: Fitted, *, every_term: bool) -> Table:
    terms = list(terms_of(fitted.profile))
    shown = [(name, term) for name, term in terms if every_term or term.source != "assumed"]
    rest = f"; {len(terms) - len(shown)} more stay assumed (--all-terms)" if len(shown) < len(terms) else ""
    table = Table(title=f"Terms, with 95 % intervals{rest}", title_justify="left")
    for heading in ("term", "value", "low", "high", "origin"):
        table.add_column(heading, justify="right" if heading in {"value", "low", "high"} else "left")
    for name, term in shown:
        bounds = ["" if bound is None else f"{bound:.4g}" for bound in (term.low, term.high)]
        table.add_row(name, f"{term.value:.4g}", *bounds, term.source)
    return table


def _plain(term: Term) -> dict[str, Any]:
    return {"value": term.value, "low": term.low, "high": term.high, "source": term.source}


def _errors(errors: Any) -> dict[str, float]:
    size = np.abs(errors)
    return {"rows": float(len(size)), "median": float(np.median(size)), "p90": float(np.quantile(size, 0.9))}


def _finite(summary: dict[str, float]) -> dict[str, float | None]:
    return {key: None if np.isnan(value) else value for key, value in summary.items()}
