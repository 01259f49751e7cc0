"""Vidur's request traces: CSV with `arrived_at` in seconds, `num_prefill_tokens` and `num_decode_tokens`.

Further columns are left alone. The same three columns are what most tables of request lengths can be turned into.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.errors import WorkloadError
from workloads.traces.csv_rows import BadCell, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.reading import Reading
from workloads.traces.request import TraceRequest
from workloads.traces.row import MOST_TOKENS, TraceRow

if TYPE_CHECKING:
    from _csv import Reader

ARRIVED, PROMPT, OUTPUT = COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
_SHOWN = 30  # of a cell that is wrong, in characters


def rows(path: Path) -> Iterator[TraceRow]:
    """Yield the rows of a file, never more than one of them in memory.

    Raises WorkloadError, with file, line and column, for what is no trace.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            try:
                yield from _rows(path, reader)
            except csv.Error as error:
                raise WorkloadError(f"{path}:{reader.line_num}: {error}") from None
            except UnicodeDecodeError:
                raise WorkloadError(f"{path}:{reader.line_num + 1}: this is no UTF-8 text") from None
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from None


def _rows(path: Path, reader: "Reader") -> Iterator[TraceRow]:
    header = next(reader, [])
    places = [_place(f"{path}:1", column, header) for column in COLUMNS]
    arrived, prompt, output = places
    before_s = 0.0
    for cells in reader:
        try:
            row = TraceRow(float(cells[arrived]), int(cells[prompt]), int(cells[output]))
            good = before_s <= row.at_s < math.inf and 1 <= row.prompt_tokens <= MOST_TOKENS
            good = good and 1 <= row.output_tokens <= MOST_TOKENS
        except (ValueError, IndexError):
            good = False
        if good:
            before_s = row.at_s
            yield row
        elif cells:
            raise WorkloadError(f"{path}:{reader.line_num}: {_wrong(cells, places, header, before_s)}")


def _wrong(cells: Sequence[str], places: Sequence[int], header: Sequence[str], before_s: float) -> str:
    """Return what is wrong with a row."""
    if len(cells) <= max(places):
        return f"{len(cells)} cells, where the header has {len(header)}"
    at, *tokens = (cells[place] for place in places)
    try:
        at_s = float(at)
    except ValueError:
        at_s = math.nan
    if not 0 <= at_s < math.inf:
        return f"{ARRIVED} {at[:_SHOWN]!r} must be a finite number of seconds of at least 0"
    if at_s < before_s:
        return f"{ARRIVED} {at} is before the {before_s:g} of the row above: times must ascend"
    column, text = next(one for one in zip((PROMPT, OUTPUT), tokens, strict=True) if not _is_length(one[1]))
    return f"{column} {text[:_SHOWN]!r} must be a whole number from 1 to {MOST_TOKENS:,}"


def _is_length(text: str) -> bool:
    try:
        return 1 <= int(text) <= MOST_TOKENS
    except ValueError:
        return False


def _place(where: str, column: str, header: Sequence[str]) -> int:
    if column in header:
        return header.index(column)
    near = get_close_matches(column, header, n=1, cutoff=0.5)
    hint = f" ({near[0]!r} is not it)" if near else f"; a header of {', '.join(COLUMNS)} is needed"
    raise WorkloadError(f"{where}: column {column!r} is missing{hint}")


def recognises(head: Head) -> bool:
    """Tell by the columns."""
    return set(COLUMNS) <= set(head.header)


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests, which have lengths alone."""
    reading.note("lengths alone: the trace tells no content, so no hits can be known")
    for row in csv_rows(reading, COLUMNS):
        try:
            request = TraceRequest(row.number, row.tokens(PROMPT), row.tokens(OUTPUT), row.seconds(ARRIVED))
        except BadCell as error:
            reading.bad(row.number, str(error))
            continue
        yield request


FORMAT = Format("vidur", "Vidur CSV", recognises, read)
