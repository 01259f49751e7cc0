"""The JSON values of a file, with where each begins: one document, values one after another, or one a line.

Infinity and NaN, which several tools write, are read. Files are opened as traces are: plain or packed, bounded.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.errors import MeasurementError
from workloads.errors import WorkloadError
from workloads.traces.text_lines import byte_lines, document

_SPACE = re.compile(r"\s*")


def json_values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield place and value of each; place is empty where the file is one value.

    Raises MeasurementError with file and line for text that is no JSON, and for a file without a value.
    """
    try:
        lines = byte_lines(path)
        first = next(lines, None)
        if first is None:
            raise MeasurementError(f"{path}: this file is empty")
        second = next(lines, None)
        if second is None or not _is_value(first[1]):
            yield from _documents(path)
            return
        lines.close()  # type: ignore[attr-defined]  # a generator, which holds the file open
        for number, line in byte_lines(path):
            yield f"line {number}", _value(path, number, line)
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None


def _is_value(line: bytes) -> bool:
    """Say whether a line is an object or a list by itself."""
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _value(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MeasurementError(f"{path}: line {number} is no JSON: {_short(error)}") from None


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file that need not keep to lines."""
    decoder = json.JSONDecoder()
    try:
        text = document(path).decode()
        at, found = 0, []
        while at < len(text):
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches nothing, too
            if at == len(text):
                break
            begin = at
            value, at = decoder.raw_decode(text, at)
            found.append((text.count("\n", 0, begin) + 1, value))
    except UnicodeDecodeError:
        raise MeasurementError(f"{path}: this is no UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise MeasurementError(f"{path}: this is no JSON: {_short(error)}") from None
    for line, value in found:
        yield ("" if len(found) == 1 else f"line {line}"), value


def _short(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
