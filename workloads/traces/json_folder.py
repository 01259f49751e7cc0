"""Folders of JSON files that are one trace together, such as one file a session on a common clock."""

from pathlib import Path
from typing import Any

from workloads.errors import WorkloadError
from workloads.traces.json_rows import json_value
from workloads.traces.text_lines import byte_lines, document

_SUFFIXES = {".json", ".jsonl", ".ndjson"}
_SNIFFED_BYTES = 64 * 2**20


def json_files(path: Path) -> list[Path]:
    """Return the JSON files of a folder by name, or the path itself if it is a file."""
    if not path.is_dir():
        return [path]
    files = (file for file in path.iterdir() if file.is_file() and _SUFFIXES & set(file.suffixes))
    return sorted(file for file in files if not file.name.startswith("."))


def first_value(folder: Path) -> Any:
    """Return the first line of a folder's first JSON file as a value, or the whole file; None if that is none."""
    files = json_files(folder)
    if not files:
        return None
    try:
        _, line = next(byte_lines(files[0]), (0, b""))
        value = json_value(line)
        return json_value(document(files[0], _SNIFFED_BYTES)) if value is None else value
    except WorkloadError:  # whoever reads the folder says what is wrong
        return None
