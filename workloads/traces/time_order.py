"""JSON Lines in order of time, whatever their order in the files: what is held of a row is its time and its place."""

import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar, cast

import msgspec
import numpy as np

from workloads.traces.json_rows import json_fault
from workloads.traces.reading import Reading
from workloads.traces.text_lines import MOST_LINE_BYTES, opened

T = TypeVar("T")


class Place(NamedTuple):
    """Where a row is."""

    file: Path
    number: int


def rows_by_time(
    reading: Reading, files: list[Path], kind: type[T], time_of: Callable[[T], float]
) -> Iterator[tuple[Place, T]]:
    """Yield place and value of each line of all files, by time; equal times keep the files' order.

    Bad rows are met in the files' own order before the first row is yielded. Archives and files of a folder are copied
    to a temporary file that has no name.
    Raises WorkloadError for a bad row, or counts it where that is asked.
    """
    decode = msgspec.json.Decoder(kind).decode
    owners, numbers, offsets, times = array("q"), array("q"), array("q"), array("d")
    with ExitStack() as stack:
        store, copied = _store(stack, files)
        for owner, path in enumerate(files):
            of_file = Reading(path, reading.options)
            for number, offset, line in _lines(of_file, store, copied=copied):
                try:
                    time = time_of(decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    of_file.bad(number, json_fault(error))
                    continue
                for column, value in ((owners, owner), (numbers, number), (offsets, offset)):
                    column.append(value)
                times.append(time)
            reading.bad_rows += of_file.bad_rows
            reading.first_bad = reading.first_bad or of_file.first_bad
        for index in np.argsort(np.frombuffer(times, dtype=float), kind="stable") if times else ():
            store.seek(offsets[index])
            yield Place(files[owners[index]], numbers[index]), decode(store.readline())


def _store(stack: ExitStack, files: list[Path]) -> tuple[BinaryIO, bool]:
    """Return where rows are fetched from by offset: the one plain file itself, or a file to copy them to, and which."""
    if len(files) == 1:
        file = stack.enter_context(opened(files[0]))
        if file.seekable():
            return file, False
    return cast("BinaryIO", stack.enter_context(tempfile.TemporaryFile())), True


def _lines(of_file: Reading, store: BinaryIO, *, copied: bool) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset in the store, and bytes of each line that is not blank."""
    number = offset = 0
    with opened(of_file.path) as file:
        while line := file.readline(MOST_LINE_BYTES + 1):
            number += 1
            if len(line) > MOST_LINE_BYTES:
                raise of_file.error(f"line {number} has more than {MOST_LINE_BYTES // 2**20} MiB")
            mark = 3 if number == 1 and line.startswith(b"\xef\xbb\xbf") else 0
            if copied:
                offset = store.tell() - mark
                store.write(line[mark:].rstrip(b"\r\n") + b"\n")
            if line.strip():
                yield number, offset + mark, line[mark:]
            offset += len(line)
