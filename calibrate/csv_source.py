"""Any CSV file, however broken, as text columns with line numbers, or one clear line about what is wrong with it.

A malformed file is an error. A row with too few or too many fields is set aside by number and the rest is kept.
Values stay text here: what they must be is the business of whoever asked.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from sim.errors import MeasurementError

MAX_FILE_BYTES = 2**29
MAX_LINE_CHARACTERS = 1_000_000
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that was left out. `line` counts from 1, comments and header included."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class CsvSource:
    """The rows of a file as text; the frame's index is the line each row ends on."""

    path: Path
    comments: tuple[str, ...]
    frame: pd.DataFrame
    rejected: tuple[Rejected, ...]


def read_csv_source(path: Path, header: tuple[str, ...] | None = None) -> CsvSource:
    """Read a .csv, .csv.gz or .parquet file; `header` names the columns of a file that has none.

    Raises MeasurementError for a file that is missing, empty, binary, not UTF-8, too large, or whose header is
    broken.
    """
    data = read_bytes(path)
    if data.startswith(_PARQUET_MAGIC):
        return _parquet_source(path)
    lines = _lines(path, _text(path, data))
    comments: list[str] = []
    for line in lines:
        if not line.startswith("#"):
            lines = chain([line], lines)
            break
        comments.append(line[1:].strip())
    reader = csv.reader(lines, strict=True)
    try:
        names = header or _header(path, reader, len(comments))
        frame, rejected = _rows(reader, names, len(comments))
    except csv.Error as error:
        raise MeasurementError(f"{path}: line {len(comments) + reader.line_num}: {error}") from None
    return CsvSource(path, tuple(comments), frame, tuple(rejected))


def read_bytes(path: Path) -> bytes:
    """Return the file's bytes, unzipped. Raises MeasurementError."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == _GZIP_MAGIC
        with gzip.open(path) if zipped else path.open("rb") as stream:
            data: bytes = stream.read(MAX_FILE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise MeasurementError(f"{path}: broken gzip file: {error}") from None
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise MeasurementError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB")
    return data


def _text(path: Path, data: bytes) -> str:
    if not data.strip():
        raise MeasurementError(f"{path}: the file is empty")
    if (nul := data.find(b"\0")) >= 0:
        raise MeasurementError(f"{path}: line {_line_at(data, nul)}: a NUL byte: this is no text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MeasurementError(f"{path}: line {_line_at(data, error.start)}: not UTF-8 text") from None


def _line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _lines(path: Path, text: str) -> Iterator[str]:
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        if len(line) > MAX_LINE_CHARACTERS:
            raise MeasurementError(f"{path}: line {number}: longer than {MAX_LINE_CHARACTERS:,} characters")
        yield line


def _header(path: Path, reader: Iterator[list[str]], comments: int) -> tuple[str, ...]:
    names = tuple(name.strip() for name in next((row for row in reader if row), []))
    if not names:
        raise MeasurementError(f"{path}: no header after {comments} comment lines")
    for position, name in enumerate(names):
        if not name:
            raise MeasurementError(f"{path}: line {comments + 1}: column {position + 1} of the header has no name")
        if name in names[:position]:
            raise MeasurementError(f"{path}: line {comments + 1}: column {shorten(name)} appears twice in the header")
    return names


def _rows(reader: Any, names: tuple[str, ...], comments: int) -> tuple[pd.DataFrame, list[Rejected]]:
    rows: list[list[str]] = []
    numbers: list[int] = []
    rejected: list[Rejected] = []
    row: list[str] = []
    for row in reader:
        number = comments + reader.line_num
        if len(row) == len(names):
            rows.append(row)
            numbers.append(number)
        elif row:
            rejected.append(Rejected(number, f"{len(row)} fields where the header has {len(names)}"))
    if 0 < len(row) < len(names):
        rejected[-1] = Rejected(rejected[-1].line, f"cut short: {rejected[-1].reason}")
    index = pd.Index(numbers, dtype="int64", name="line")
    return pd.DataFrame(rows, columns=list(names), index=index, dtype=str), rejected


def _parquet_source(path: Path) -> CsvSource:
    frame = _read_parquet(path)
    comments = tuple(str(line) for line in frame.attrs.get("comments", ()))
    text = frame.astype(object).where(frame.notna(), "").map(str)
    text.index = pd.RangeIndex(2, len(text) + 2, name="line")
    return CsvSource(path, comments, text, ())


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise MeasurementError(f"{path}: reading parquet needs pyarrow: pip install pyarrow") from None
    except (ValueError, OSError) as error:
        raise MeasurementError(f"{path}: broken parquet file: {shorten(str(error))}") from None


def shorten(value: str, limit: int = 60) -> str:
    """Return the value in quotes, cut where it is long: a message stays one line."""
    text = " ".join(value.split())
    return repr(text if len(text) <= limit else f"{text[:limit]}...")
