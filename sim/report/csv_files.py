"""Rows to CSV that reads back to the same numbers, with a column order that does not wander."""

import csv
from collections.abc import Iterable
from pathlib import Path

from sim.report.atomic import replacing
from sim.results.points import Row


def write_csv(path: str | Path, rows: Iterable[Row]) -> Path:
    """Write rows as UTF-8 CSV with a header, whole or not at all; return the path.

    Columns come in the first row's order, later rows' new keys after them. Floats are written so that
    `float()` gives the same bits back; None and missing keys are empty cells. Raises OSError if the place
    cannot be written.
    """
    path, table = Path(path), list(rows)
    columns = list(dict.fromkeys(key for row in table for key in row))
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if columns:
            writer.writerow(columns)
        writer.writerows([_cell(row.get(key)) for key in columns] for row in table)
    return path


def _cell(value: object) -> object:
    """Return what the csv module writes: repr for floats (NumPy's float64 is one), the rest as it is."""
    return repr(float(value)) if isinstance(value, float) else value
