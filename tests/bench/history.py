"""The history of results: a page of Markdown with a section a run, newest first. Written here, never by hand."""

from collections.abc import Iterable
from pathlib import Path

from bench.machine import ROOT
from bench.results import Outcome
from bench.tables import Table, heading, notes, tables

from sim.report.atomic import replacing

PAGE = ROOT / "notebooks" / "benchmarks.md"
TITLE = """# Benchmarks

`make bench RECORD=1` measures and adds a section on top; nobody edits this page by hand.
[The suite](../tests/bench) says what each case is. Seconds are of CPU time unless it says wall, the best of several
fresh processes. Compare ratios across sections, and seconds only within one: the machine is not always idle.
"""


def record(outcome: Outcome, page: Path = PAGE) -> None:
    """Put a section on top of the page; the old page stays whole if writing fails."""
    text = page.read_text(encoding="utf-8") if page.exists() else TITLE
    head, mark, rest = text.partition("\n## ")
    with replacing(page) as partial:
        partial.write_text(f"{head.rstrip()}\n\n{section(outcome)}{mark}{rest}", encoding="utf-8")


def section(outcome: Outcome) -> str:
    """Return one run as Markdown."""
    parts = [f"## {outcome.machine.date}, {outcome.machine.commit}", heading(outcome.machine)]
    for table in tables(outcome):
        parts += [f"### {table.title}", markdown(table)]
    return "\n\n".join([*parts, "\n".join(notes(outcome))]) + "\n"


def markdown(table: Table) -> str:
    """Return a table, padded so that it reads well as text."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)]

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([line(table.head), rule, *map(line, table.rows)])
