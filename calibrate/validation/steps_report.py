"""Errors of whole steps as a table, an object and a CSV."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from calibrate.fitting.robust import Vector
from calibrate.validation.e2e_page import markdown
from calibrate.validation.e2e_tables import Table as Cells
from calibrate.validation.steps import LIMITS, StepCheck
from sim.report.atomic import replacing

KINDS = ("prefill", "mixed", "decode")


def print_report(checks: Sequence[StepCheck]) -> None:
    """Print a row a GPU, way of leaving out, kind and model."""
    table = Table(title="Whole steps: |predicted / measured - 1|", title_justify="left")
    for heading in ("GPU", "predicted with", "steps", "count", "median", "p90", "bias", "limit"):
        table.add_column(heading, justify="left" if heading in {"GPU", "predicted with", "steps"} else "right")
    for cells, style in _cells(checks):
        table.add_row(*cells, style=style)
    console = Console()
    console.print(table)
    for remark in _remarks(checks):
        console.print(remark)


def _cells(checks: Sequence[StepCheck]) -> Iterator[tuple[list[str], str | None]]:
    for check in checks:
        for what, name, errors in _rows(check):
            limit = f"{LIMITS[what]:.0%}" if name == "all" and check.judged(what) else ""
            size = np.abs(errors)
            shares = [f"{share:.1%}" for share in (np.median(size), np.quantile(size, 0.9))]
            bias = f"{np.median(errors):+.1%}"
            yield [check.gpu, what, name, str(len(errors)), *shares, bias, limit], "bold" if name == "all" else None


def _remarks(checks: Sequence[StepCheck]) -> Iterator[str]:
    for check in checks:
        known = int(np.isfinite(check.bound_s).sum())
        yield f"{check.gpu}: {check.faster_than_light()} of {known} predicted steps below the hardware's bound."
        if len(check.models) == 1:
            yield f"{check.gpu}: steps of one model only; without them the profile rests on data-sheet shares."


def as_dict(checks: Sequence[StepCheck]) -> dict[str, Any]:
    """Return medians and counts, ready for JSON."""
    return {
        "checks": [
            {
                "gpu": check.gpu,
                "profile": check.profile,
                "faster_than_light": check.faster_than_light(),
                "errors": [
                    {
                        "predicted_with": what,
                        "steps": name,
                        "count": len(errors),
                        "median": float(np.median(np.abs(errors))),
                        "p90": float(np.quantile(np.abs(errors), 0.9)),
                        "bias": float(np.median(errors)),
                    }
                    for what, name, errors in _rows(check)
                ],
                "broken": check.broken(),
            }
            for check in checks
        ]
    }


def write_page(path: Path, checks: Sequence[StepCheck], command: str) -> None:
    """Write the tables as Markdown."""
    headings = ("GPU", "predicted with", "steps", "count", "median", "p90", "bias", "limit")
    rows = [tuple(cells) for cells, _ in _cells(checks)]
    parts = [
        "# Whole steps, each predicted by a profile that did not see it",
        f"Every number on this page comes from `{command}`.",
        markdown(Cells("Whole steps: |predicted / measured - 1|", headings, rows)),
        *_remarks(checks),
    ]
    with replacing(path) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def write_csv(path: Path, checks: Sequence[StepCheck]) -> None:
    """Write a row a step and way of predicting it."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["gpu", "predicted_with", "kind", "step", "measured_s", "predicted_s", "bound_s"])
        for check in checks:
            for what, errors in check.errors.items():
                for figure, error, bound in zip(check.figures, errors, check.bound_s, strict=True):
                    predicted = figure.seconds * (1 + error)
                    writer.writerow([check.gpu, what, figure.kind, figure.label, figure.seconds, predicted, bound])


def _rows(check: StepCheck) -> Iterator[tuple[str, str, Vector]]:
    for what, errors in check.errors.items():
        yield what, "all", errors
        for kind in KINDS:
            if chosen := check.of_kind(kind):
                yield what, kind, errors[chosen]
        if len(check.models) > 1:
            for model in check.models:
                yield what, model, errors[[i for i, figure in enumerate(check.figures) if figure.setup.model == model]]
