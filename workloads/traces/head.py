"""The beginning of a file, and which format it is of."""

import csv
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from workloads.errors import WorkloadError
from workloads.traces.format import Format, Head
from workloads.traces.formats import FORMATS
from workloads.traces.json_rows import json_value
from workloads.traces.text_lines import byte_lines, document

_TEXT_BYTES = 64 * 2**10
_NO_TRACES = {".md", ".rst", ".txt", ".html", ".pdf", ".png", ".py", ".sh"}


def head_of(path: Path) -> Head:
    """Return the head of a file.

    Raises WorkloadError if it cannot be read, is empty or binary.
    """
    lines = [line for _, line in islice(byte_lines(path), 40)]
    if not lines:
        raise WorkloadError(f"{path}: the file is empty")
    text = b"".join(lines)[:_TEXT_BYTES].decode(errors="replace")
    first = json_value(lines[0])
    if first is None and lines[0].lstrip()[:1] in {b"{", b"["}:
        first = json_value(document(path))
    header: tuple[str, ...] = ()
    if first is None or isinstance(first, int | float):
        cells = next(csv.reader([lines[0][:_TEXT_BYTES].decode(errors="replace").strip()]), [])
        header = tuple(cell.strip() for cell in cells) if len(cells) > 1 else ()
    return Head(path, text, first, header)


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
        whole = next((one for one in FORMATS.values() if one.recognises_folder and one.recognises_folder(path)), None)
        if whole is not None:
            return whole
        files = files_in(path)
        return format_of(files[0])
    head = head_of(path)
    found = next((one for one in FORMATS.values() if one.recognises(head)), None)
    if found is None:
        raise WorkloadError(f"{path}: no format known here begins with {_seen(head)}; name one of {', '.join(FORMATS)}")
    return found


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
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not _is_no_trace(path)]
    if not files:
        raise WorkloadError(f"{folder}: no file in this folder may be a trace")
    return files


def _is_no_trace(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix.lower() in _NO_TRACES or path.stem.upper() in {"LICENSE", "NOTICE"}
