"""The result as files: a page of tables, every error as CSV, and the chart."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from calibrate.validation.e2e_clients import Client
from calibrate.validation.e2e_errors import ReplayedPoint, error_rows, limit_rows, median_rows
from calibrate.validation.e2e_regimes import __doc__ as regime_rule
from calibrate.validation.e2e_replay import Replayed
from calibrate.validation.e2e_tables import (
    Table,
    clients_table,
    deployments_table,
    errors_table,
    limits_table,
    medians_table,
    skipped_table,
    totals_table,
    values_table,
)
from sim.report.atomic import replacing


def page(replayed: Sequence[Replayed], clients: Sequence[tuple[str, Client]], command: str) -> str:
    """Return the result as Markdown."""
    points = points_of(replayed)
    rule = dedent("\n".join((regime_rule or "").splitlines()[2:]))
    tables = (
        limits_table(limit_rows(points)),
        totals_table(points),
        medians_table(median_rows(points)),
        errors_table(points),
        values_table(points),
        deployments_table(points),
        clients_table(clients),
        skipped_table(replayed),
    )
    parts = [
        "# End-to-end runs, replayed",
        f"Every number on this page comes from `{command}`.",
        "![Predicted against measured](e2e.png)",
        f"Regimes:\n\n```\n{rule.strip()}\n```",
        *(markdown(table) for table in tables if table.rows),
    ]
    return "\n\n".join(parts) + "\n"


def write_page(
    replayed: Sequence[Replayed], clients: Sequence[tuple[str, Client]], command: str, folder: Path
) -> list[Path]:
    """Write `e2e.md`, `e2e_errors.csv`, `e2e.png` and `e2e.svg`; return their paths. Raises OSError."""
    from calibrate.validation.e2e_chart import e2e_chart
    from sim.report.csv_files import write_csv
    from sim.report.figure_files import save_figure

    points = points_of(replayed)
    target = folder / "e2e.md"
    with replacing(target) as partial:
        partial.write_text(page(replayed, clients, command), encoding="utf-8")
    table = write_csv(folder / "e2e_errors.csv", error_rows(points))
    profiles = ", ".join(sorted({point.profile for point in points})) or "none"
    provenance = (
        f"{len(points)} load levels of {len({point.experiment for point in points})} experiments; filled: below the "
        f"knee, open: at or beyond it; the band is 20 % either way. Step times: {profiles}."
    )
    return [target, table, *save_figure(e2e_chart(points, provenance), folder / "e2e")]


def points_of(replayed: Sequence[Replayed]) -> list[ReplayedPoint]:
    """Return all load levels."""
    return [point for one in replayed for point in one.points]


def markdown(table: Table) -> str:
    """Return a table as Markdown under its title."""
    lines = [f"## {table.title}", "", _line(table.headings), _line(("---",) * len(table.headings))]
    return "\n".join([*lines, *map(_line, table.rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
