"""JSON Lines, row by row, and files that are one JSON value; what is wrong with them in words."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from workloads.traces.reading import Reading
from workloads.traces.text_lines import byte_lines, document

T = TypeVar("T")
_WHOLE_BYTES = 64 * 2**10  # of a value that is not abridged
_ITEMS = 100  # of an array that is
_BLANKS = 1000  # before a value, at most
_pieces = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row of a format: further keys are left alone."""


def json_rows(reading: Reading, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yield number and value of each line, decoded into a type; a bad row raises or is counted, as asked.

    Bare `NaN` and `Infinity` are refused: msgspec takes JSON as it is defined.
    """
    decode = msgspec.json.Decoder(kind).decode
    for number, line in byte_lines(reading.path):
        try:
            row = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reading.bad(number, json_fault(error))
            continue
        yield number, row


def json_document(reading: Reading, kind: type[T], most_bytes: int | None = None) -> T:
    """Return a file that is one JSON value, decoded into a type.

    Raises WorkloadError with what is wrong and where in the value.
    """
    text = document(reading.path) if most_bytes is None else document(reading.path, most_bytes)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise reading.error(json_fault(error)) from None


def json_value(text: bytes | str) -> Any:
    """Return text as a JSON value, or None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def abridged_value(text: bytes | msgspec.Raw) -> Any:
    """Return text as a JSON value, or None if it is none; of long arrays the first items, whatever their size.

    So the beginning of a value of many megabytes can be looked at without making objects of all of it.
    """
    try:
        return _abridged(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _abridged(text: bytes | msgspec.Raw) -> Any:
    if len(memoryview(text)) <= _WHOLE_BYTES:
        return msgspec.json.decode(text)
    match bytes(memoryview(text)[:_BLANKS]).lstrip()[:1]:
        case b"{":
            return {key: _abridged(value) for key, value in _pieces(text).items()}
        case b"[":
            return [_abridged(item) for item in _items(text)[:_ITEMS]]
        case _:
            return msgspec.json.decode(text)


def is_json(text: bytes) -> bool:
    """Return whether text is a JSON value, without making it one."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def json_fault(error: Exception) -> str:
    """Return in words what a decoder complained of, the key first."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "this is no UTF-8 text"
    found = _AT.match(str(error))
    what = found["what"] if found else str(error)
    where = (found["path"] or "").lstrip(".") if found else ""
    if not isinstance(error, msgspec.ValidationError):
        return f"no JSON, or cut short: {what.removeprefix('JSON is malformed: ')}"
    what = what.replace("Object missing required field", "key missing:").replace("`", "")
    what = what[0].lower() + what[1:] if what else what
    return f"{where}: {what}" if where else what
