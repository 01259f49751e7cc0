"""The file a calibration appends to: whole at every moment, so that an interrupt costs at most the point at hand.

Lines starting with # say what ran where, for each run that added to the file; then come the table's header and a line
a finished point, each written in one system call. A last line without its end, left by a killed process, is dropped
when the file is opened again.
"""

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from calibrate.measurements import NAMES
from calibrate.timing.points import row_key
from sim.errors import CalibrationError
from sim.report.atomic import replacing

Row = Mapping[str, object]


class RowFile:
    """An open measurement file. `rows` are those in it, as text."""

    def __init__(self, path: Path, descriptor: int, rows: list[dict[str, str]]) -> None:
        self.path = path
        self.rows = rows
        self._descriptor = descriptor

    @property
    def done(self) -> set[tuple[str, ...]]:
        """The keys of the points that are there."""
        return {row_key(row) for row in self.rows}

    def append(self, row: Row) -> None:
        """Write one row; columns it lacks stay empty, None too."""
        texts = {name: _text(row.get(name)) for name in NAMES}
        os.write(self._descriptor, f"{_csv_line(texts.values())}\n".encode())
        self.rows.append(texts)


@contextmanager
def open_rows(
    path: Path, identity: Mapping[str, str], conditions: Mapping[str, str], *, fresh: bool = False
) -> Iterator[RowFile]:
    """Open a measurement file to go on with it, or start it.

    `identity` is what all rows of a file have in common; `conditions` are noted for each run. `fresh` discards what
    the file holds. Raises CalibrationError, in one line, for a file of another identity, one that is no measurement
    file, or one that another calibration has open.
    """
    with _locked(path) as before:
        text = "" if fresh else _whole_lines(path, before)
        if text:
            _same_identity(path, text, identity)
        rows = _rows(path, text) if text else []
        noted = [line for line in text.splitlines() if line.startswith("#")] or _comments(identity)
        lines = [*noted, *_comments(conditions), *map(_csv_line, (NAMES, *(row.values() for row in rows)))]
        with replacing(path) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with _locked(path) as descriptor:
        yield RowFile(path, descriptor, rows)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Yield a descriptor that appends, of a file nobody else has open here."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        _lock(path, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CalibrationError(f"{path}: another calibration is writing to it") from None


def _whole_lines(path: Path, descriptor: int) -> str:
    """Return the text up to the last line end."""
    raw = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    try:
        return raw[: raw.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        raise CalibrationError(f"{path}: is not a measurement file (not UTF-8); give another --out") from None


def _same_identity(path: Path, text: str, identity: Mapping[str, str]) -> None:
    found = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# ") and ": " in line)
    for name, wanted in identity.items():
        if name not in found:
            raise CalibrationError(
                f"{path}: kvcliff calibrate did not write it (no '# {name}:' line); give another --out, or --fresh "
                "to replace it"
            )
        if found[name] != wanted:
            raise CalibrationError(
                f"{path}: holds {name} {found[name]!r}, not {wanted!r}; give another --out, or --fresh to replace it"
            )


def _rows(path: Path, text: str) -> list[dict[str, str]]:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if not line.startswith("#")]
    if not lines:
        raise CalibrationError(f"{path}: has no header; give --fresh to start again")
    header = next(csv.reader([lines[0][1]]))
    if tuple(header) != NAMES:
        raise CalibrationError(
            f"{path}:{lines[0][0]}: columns are those of another version; give another --out, or --fresh to replace it"
        )
    rows: list[dict[str, str]] = []
    for number, line in lines[1:]:
        values = next(csv.reader([line]), [])
        if len(values) != len(NAMES):
            raise CalibrationError(f"{path}:{number}: has {len(values)} columns, not {len(NAMES)}; delete the line")
        rows.append(dict(zip(NAMES, values, strict=True)))
    return rows


def _comments(values: Mapping[str, str]) -> list[str]:
    return [f"# {name}: {' '.join(value.split())}" for name, value in values.items()]


def _csv_line(values: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(values)
    return buffer.getvalue()


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
