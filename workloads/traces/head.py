"""The beginning of a file, and which format it is of."""

import csv
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from workloads.errors import WorkloadError
from workloads.traces.format import Format, Head
from workloads.traces.formats import FORMATS
from workloads.traces.json_rows import abridged_value
from workloads.traces.text_lines import byte_lines, document

_TEXT_BYTES = 64 * 2**10
_LINES = 40
_WHOLE_BYTES = 128 * 2**20
_NO_TRACES = {".md", ".rst", ".txt", ".html", ".pdf", ".png", ".py", ".sh"}
_NO_TRACE_STEMS = {"LICENSE", "NOTICE", "README", "MANIFEST"}  # AIPerf writes a manifest beside its traces


def head_of(path: Path) -> Head:
    """Return the head of a file; where the first line is cut short, the next good one stands for it.

    Raises WorkloadError if it cannot be read, is empty or binary.
    """
    lines = _first_lines(path)
    text = b"".join(lines)[:_TEXT_BYTES].decode(errors="replace").removeprefix("\ufeff")
    first = abridged_value(lines[0])
    if first is None and lines[0].lstrip()[:1] in {b"{", b"["}:
        first = _whole(path)
        if first is None:
            first = next((value for value in map(abridged_value, lines[1:]) if isinstance(value, dict)), None)
    header: tuple[str, ...] = ()
    if first is None or isinstance(first, int | float):
        header = tuple(cell.strip() for cell in _cells(lines[0]))
    return Head(path, text, first, header if len(header) > 1 else ())


def _first_lines(path: Path) -> list[bytes]:
    lines, size = [], 0
    for _, line in islice(byte_lines(path), _LINES):
        lines.append(line)
        size += len(line)
        if size > _TEXT_BYTES:
            break
    if not lines:
        raise WorkloadError(f"{path}: the file is empty")
    return lines


def _whole(path: Path) -> Any:
    """Return a file that is one JSON value over many lines, or None, also where it is too large to be looked at."""
    try:
        return abridged_value(document(path, _WHOLE_BYTES))
    except WorkloadError:
        return None


def _cells(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line[:_TEXT_BYTES].decode(errors="replace").strip()]), [])
    except csv.Error:
        return []


def format_of(path: Path, named: str | None = None) -> Format:
    """Return the format of a file or folder: the one named, or the one that recognises it.

    Raises WorkloadError if there is no such format, or none does.
    """
    if named is not None:
        if named not in FORMATS:
            near = get_close_matches(named, FORMATS, n=1, cutoff=0.4)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise WorkloadError(f"format {named[:60]!r} is not one of {', '.join(FORMATS)}{hint}")
        return FORMATS[named]
    if path.is_dir():
        return folder_format(path) or format_of(files_in(path)[0])
    head = head_of(path)
    found = next((one for one in FORMATS.values() if one.recognises(head)), None)
    if found is None and head.first is None and head.text.lstrip()[:1] in {"{", "["}:
        begins = repr(head.text[:40].strip())
        raise WorkloadError(f"{path}:1: no format known here begins with {begins}, which is no JSON, or cut short")
    if found is None and "\ufffd" in head.text[:200]:
        raise WorkloadError(f"{path}:1: this is no UTF-8 text: a binary file, or of another encoding")
    if found is None:
        raise WorkloadError(f"{path}: no format known here begins with {_seen(head)}; name one of {', '.join(FORMATS)}")
    return found


def folder_format(path: Path) -> Format | None:
    """Return the format of which a folder is one trace, or None."""
    if not path.is_dir():
        return None
    return next((one for one in FORMATS.values() if one.recognises_folder and one.recognises_folder(path)), None)


def _seen(head: Head) -> str:
    if head.keys:
        return f"an object of {_few(sorted(map(str, head.keys)))}"
    if head.header:
        return f"the columns {_few(head.header)}"
    return repr(head.text[:40].strip())


def _few(names: "list[str] | tuple[str, ...]") -> str:
    return ", ".join(name[:30] for name in names[:6]) + (", …" if len(names) > 6 else "")


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder that may be traces, by name; what is plainly something else is passed over.

    Raises WorkloadError if there are none.
    """
    try:
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and not _is_no_trace(path)]
    except OSError as error:
        raise WorkloadError(f"{folder}: {error.strerror or error}") from None
    if not files:
        raise WorkloadError(f"{folder}: no file in this folder may be a trace")
    return files


def _is_no_trace(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix.lower() in _NO_TRACES or path.stem.upper() in _NO_TRACE_STEMS
