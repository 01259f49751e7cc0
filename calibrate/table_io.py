"""The measurement table on disk: .csv, .csv.gz, or .parquet where pyarrow is installed.

Lines at the top that start with `#` say under what conditions a table was measured. A malformed file is an error;
a bad row is set aside, named, and the rest is kept.
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from calibrate.csv_source import CsvSource, Rejected, read_csv_source, shorten
from calibrate.measurements import COLUMNS, NAMES, REQUIRED, TEXT
from calibrate.row_checks import Reasons, check_rows, parse_numbers
from sim.errors import MeasurementError, did_you_mean
from sim.report.atomic import replacing

SUFFIXES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class Table:
    """Measurements: `frame` has every column of `NAMES`, text as str (empty: ""), the rest as float (empty: NaN).

    The frame's index is the line a row came from. `rejected` names what was left out.
    """

    frame: pd.DataFrame
    rejected: tuple[Rejected, ...] = ()
    comments: tuple[str, ...] = ()


def read_table(path: str | Path) -> Table:
    """Read a measurement table.

    Raises MeasurementError for a malformed file, an unknown column, or a missing one.
    """
    return table_from_source(read_csv_source(Path(path)))


def read_comments(path: str | Path) -> tuple[str, ...]:
    """Return the comment lines at the top of a table, without their `#`. Raises MeasurementError."""
    return read_csv_source(Path(path)).comments


def table_from_source(source: CsvSource) -> Table:
    """Return the text of a file as a checked table. Raises MeasurementError."""
    header_line = len(source.comments) + 1
    for name in source.frame.columns:
        if name not in NAMES:
            near = did_you_mean(name, NAMES)
            raise MeasurementError(f"{source.path}: line {header_line}: unknown column {shorten(name)}{near}")
    for name in REQUIRED:
        if name not in source.frame.columns:
            raise MeasurementError(f"{source.path}: line {header_line}: column {name!r} is missing")
    reasons = Reasons.of(source.frame)
    typed = {
        column.name: source.frame[column.name].str.strip()
        if column.kind == "text"
        else parse_numbers(source.frame[column.name], reasons, needed=False, whole=column.kind == "count")
        for column in COLUMNS
        if column.name in source.frame.columns
    }
    return checked_table(
        pd.DataFrame(typed, index=source.frame.index), source.rejected, source.comments, reasons=reasons
    )


def checked_table(
    frame: pd.DataFrame,
    rejected: tuple[Rejected, ...] = (),
    comments: tuple[str, ...] = (),
    *,
    reasons: Reasons | None = None,
) -> Table:
    """Return typed rows as a table: absent columns are added empty, and rows that cannot be true set aside."""
    reasons = reasons or Reasons.of(frame)
    filled = frame.reindex(columns=list(NAMES))
    for name in NAMES:
        filled[name] = (
            filled[name].astype(object).fillna("").astype(str) if name in TEXT else filled[name].astype(float)
        )
    check_rows(filled, reasons)
    good, bad = reasons.split(filled)
    return Table(good, tuple(sorted((*rejected, *bad), key=lambda row: row.line)), comments)


def write_table(path: str | Path, frame: pd.DataFrame, comments: tuple[str, ...] = ()) -> None:
    """Write a table whole or not at all; columns that nothing fills are left out.

    Numbers keep their full value. White space inside a text becomes one blank: a row is one line.
    Raises MeasurementError for a suffix other than .csv, .csv.gz and .parquet, and for columns it does not know.
    """
    path = Path(path)
    check_suffix(path)
    unknown = [name for name in frame.columns if name not in NAMES]
    if unknown:
        raise MeasurementError(f"{path}: unknown column {shorten(unknown[0])}{did_you_mean(unknown[0], NAMES)}")
    tidy = _tidy(frame)
    one_line = [" ".join(line.replace("\0", " ").split()) for line in comments]
    if path.name.endswith(".parquet"):
        _write_parquet(path, tidy, one_line)
        return
    text = "".join(f"# {line}\n" for line in one_line) + tidy.to_csv(index=False, lineterminator="\n")
    data = text.encode()
    with _place(path) as partial:
        partial.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def check_suffix(path: Path) -> None:
    """Raise MeasurementError for a file name no table can have."""
    if not path.name.endswith(SUFFIXES):
        raise MeasurementError(f"{path}: a table's name ends in {', '.join(SUFFIXES)}")


def _tidy(frame: pd.DataFrame) -> pd.DataFrame:
    tidy = {}
    for column in COLUMNS:
        if column.name not in frame.columns:
            continue
        values = frame[column.name]
        if column.kind == "text":
            values = values.astype(object).fillna("").astype(str).str.replace(r"[\s\0]+", " ", regex=True).str.strip()
            used = bool((values != "").any())
        else:
            values = values.astype(float)
            whole = column.kind == "count" and bool((values.dropna() % 1 == 0).all())
            values = values.astype("Int64") if whole else values
            used = bool(values.notna().any())
        if used or column.name in REQUIRED:
            tidy[column.name] = values
    return pd.DataFrame(tidy, index=frame.index)


def _write_parquet(path: Path, frame: pd.DataFrame, comments: list[str]) -> None:
    stored = frame.reset_index(drop=True)
    stored.attrs["comments"] = comments
    with _place(path) as partial:
        try:
            stored.to_parquet(partial)
        except ImportError:
            raise MeasurementError(f"{path}: writing parquet needs pyarrow: pip install pyarrow") from None


@contextmanager
def _place(path: Path) -> Iterator[Path]:
    try:
        with replacing(path) as partial:
            yield partial
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror or error}") from None
