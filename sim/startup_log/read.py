"""Open a log of any size: find the few lines worth reading by searching for fixed bytes, at gigabytes a second.

A server's log grows by gigabytes while its start is a few hundred lines; only these become text.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sim.startup_log.errors import StartupLogError
from sim.startup_log.facts import StartupFacts
from sim.startup_log.parse import LONGEST_LINE, SERVER_BEGINS, SERVER_OPENS, parse_numbered

MOST_BYTES = 2**27
_STRETCH = 2**23  # bytes behind the line that opens a start, within which it sizes its KV
_MOST_STRETCHES = 3
_MOST_OPENERS = 64  # of one kind, from the end of the log
_MOST_LINES = 5_000  # with one mark, in a stretch; a start prints some twenty a rank
_MOST_TEXT = 2**20  # bytes of lines worth reading, in a stretch
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zXZ")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # what PowerShell redirects
_OPENERS = tuple(words.encode() for words in (*SERVER_OPENS, *SERVER_BEGINS, "LLM engine"))
# Every line that says something about memory holds one of these.
_MARKS = tuple(
    mark.encode()
    for mark in (
        "GiB", " GB", "KV cache size: ", "Maximum concurrency for", " blocks: ", "num_gpu_blocks", "API server version",
        "█  version", "█  model", "LLM engine", "LLM Engine (v", "args: ", "server_args=", "max_total_num_tokens",
        "max_running_requests", "max seq len (", "cache blocks", "uto-fit max_model_len", "attention block size to",
        "mamba page size", "padding layers", "cp_world_size", "gpu-memory-utilization", "mem-fraction-static",
        "max_num_batched_tokens=", "Using max model len", "device_name=", "GPU 0: ", "ut of memory", "OutOfMemory",
        "startup complete", "ready to roll", "init engine (profile", "Starting vLLM API", "sglang version",
        "Cache is allocated", "estimated maximum model length", "Using KV cache dtype",
    )
)  # fmt: skip


def read_startup_log(path: Path) -> StartupFacts:
    """Return the facts of the last complete start in a log file.

    Raises StartupLogError where the file cannot be read, is compressed, holds no start, or a number that cannot be.
    """
    data, notes = _bytes_of(path)
    lines = {_span_around(data, max(len(data.rstrip()) - 1, 0))}  # the last of all tells whether the log is cut
    for begin, end in _stretches(data):
        worth_reading, read_to = _lines_worth_reading(data, begin, end)
        lines.update(worth_reading)
        if read_to < end:
            notes.append(
                f"bytes {read_to:,} to {end:,} are not read: more looks like a start there than a start prints"
            )
    return parse_numbered(_numbered(data, sorted(lines)), str(path), notes)


def _bytes_of(path: Path) -> tuple[bytes, list[str]]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise StartupLogError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a name that no file can have
        raise StartupLogError(f"{str(path)!r}: {error}") from None
    if data.startswith(_COMPRESSED):
        raise StartupLogError(f"{path}: the file is compressed: unpack it first")
    notes = [f"only the first {MOST_BYTES // 2**20} MiB are read"] if len(data) > MOST_BYTES else []
    data = data[:MOST_BYTES]
    if data.startswith(_UTF16):
        data = data.decode("utf-16", errors="replace").encode()
    if not data.strip():
        raise StartupLogError(f"{path}: the file is empty")
    if not data.endswith((b"\n", b"\r")):  # cut anywhere: what looks like a number may be half of one
        data = data.rstrip(b"0123456789,.")
    return data, notes


def _stretches(data: bytes) -> list[tuple[int, int]]:
    """Return the stretches of a log that may hold a start: its head, and behind the last lines that open one."""
    openers = {0}
    for mark in _OPENERS:
        at = data.rfind(mark)
        for _ in range(_MOST_OPENERS):
            if at < 0:
                break
            openers.add(_span_around(data, at)[0])
            at = data.rfind(mark, 0, at)
    stretches: list[tuple[int, int]] = []
    for begin in sorted(openers):
        joined = stretches.pop()[0] if stretches and begin <= stretches[-1][1] else begin
        stretches.append((joined, min(begin + _STRETCH, len(data))))
    return [(max(begin, end - 2 * _STRETCH), end) for begin, end in stretches[-_MOST_STRETCHES:]]


def _lines_worth_reading(data: bytes, begin: int, end: int) -> tuple[list[tuple[int, int]], int]:
    """Return where the lines that hold a mark begin and end, and how far the stretch was read."""
    lines: dict[int, int] = {}
    for mark in _MARKS:
        at = data.find(mark, begin, end)
        for _ in range(_MOST_LINES):
            if at < 0:
                break
            line_begin, line_end = _span_around(data, at)
            lines[line_begin] = line_end
            at = data.find(mark, line_end, end)
        end = end if at < 0 else at
    kept: list[tuple[int, int]] = []
    size = 0
    for line in sorted(lines.items()):
        size += line[1] - line[0]
        if size > _MOST_TEXT or line[0] >= end:
            return kept, min(line[0], end)
        kept.append(line)
    return kept, end


def _span_around(data: bytes, at: int) -> tuple[int, int]:
    """Return where the line around a place begins and ends, at most LONGEST_LINE apart."""
    least, most = max(0, at - LONGEST_LINE // 2), min(len(data), at + LONGEST_LINE // 2)
    begin = max(data.rfind(b"\n", least, at), data.rfind(b"\r", least, at), least - 1) + 1
    ends = [data.find(sign, at, most) for sign in (b"\n", b"\r")]
    return begin, min((found for found in ends if found >= 0), default=most)


def _numbered(data: bytes, lines: Iterable[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    number, counted = 1, 0
    for begin, end in lines:
        number += data.count(b"\n", counted, begin)
        counted = begin
        yield number, data[begin:end].decode("utf-8", errors="replace")
