"""CSV row by row, by the columns of its header; what is wrong with a cell in words."""

import csv
import math
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from workloads.errors import WorkloadError
from workloads.traces.reading import Reading, shown
from workloads.traces.request import MOST_SECONDS, MOST_TOKENS
from workloads.traces.text_lines import byte_lines


class BadCell(ValueError):  # noqa: N818 - not for users: it becomes a bad row
    """What is wrong with a cell, in words."""


class CsvRow:
    """One row; cells are asked for by column."""

    __slots__ = ("_cells", "_places", "number")

    def __init__(self, number: int, cells: Sequence[str], places: dict[str, int]) -> None:
        self.number, self._cells, self._places = number, cells, places

    def text(self, column: str) -> str:
        """Return a cell, or an empty string where the header has no such column."""
        place = self._places.get(column)
        return "" if place is None else self._cells[place].strip()

    def tokens(self, column: str, least: int = 1) -> int:
        """Return a number of tokens; raises BadCell."""
        text = self.text(column)
        try:
            value = int(text) if text.isascii() and len(text) < 20 and "_" not in text else -1
        except ValueError:
            value = _whole(text)
        if not least <= value <= MOST_TOKENS:
            raise BadCell(f"{column} {shown(text)} must be a whole number from {least} to {MOST_TOKENS:,}")
        return value

    def seconds(self, column: str, per_second: float = 1.0) -> float:
        """Return a time in seconds, of a cell that counts `per_second` units in one; raises BadCell."""
        text = self.text(column)
        try:
            value = float(text) / per_second if "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not 0 <= value < MOST_SECONDS * 100:  # clocks since 1970 count too
            raise BadCell(f"{column} {shown(text)} must be a time of at least 0")
        return value


def _whole(text: str) -> int:
    """Return 5 for `5.0`, as spreadsheets and pandas write it, or -1."""
    try:
        value = float(text)
    except ValueError:
        return -1
    return int(value) if value.is_integer() else -1


def csv_rows(reading: Reading, needed: Sequence[str], *, header: Sequence[str] | None = None) -> Iterator[CsvRow]:
    """Yield the rows below the header, which must have the `needed` columns; others are left alone.

    `header` names the columns of a file that has none. A row with too few cells raises or is counted, as asked.
    """
    rows = _cells(reading)
    if header is None:
        number, header = next(rows, (1, ()))
        header = [cell.strip() for cell in header]
        for column in needed:
            if column not in header:
                raise WorkloadError(reading.message(number, _missing(column, header, needed)))
    places = {column: place for place, column in reversed(list(enumerate(header)))}
    for number, cells in rows:
        if len(cells) < len(header):  # cut short: its last cell may be a part of a number
            reading.bad(number, f"{len(cells)} cells, where {len(header)} are expected")
            continue
        yield CsvRow(number, cells, places)


def _cells(reading: Reading) -> Iterator[tuple[int, list[str]]]:
    for number, line in byte_lines(reading.path):
        try:
            cells = next(csv.reader([line.decode()], strict=True))
        except UnicodeDecodeError:
            reading.bad(number, "this is no UTF-8 text")
            continue
        except (csv.Error, StopIteration) as error:
            reading.bad(number, f"no row of a CSV file: {error}")
            continue
        yield number, cells


def _missing(column: str, header: Sequence[str], needed: Sequence[str]) -> str:
    near = get_close_matches(column, header, n=1, cutoff=0.5)
    hint = f" ({near[0][:60]!r} is not it)" if near else f"; a header of {', '.join(needed)} is needed"
    return f"column {column!r} is missing{hint}"
