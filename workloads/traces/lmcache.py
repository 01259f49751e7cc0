"""LMCache's agent traces: JSON Lines of `timestamp` in microseconds, and prompt and answer as text.

Rows are in no order; they are sorted by time, of which only places in the file are held. A folder, such as one file a
session, is one trace. Tokens are estimated from characters. Prompts hold their history, so what two of them share is
known from their text (text_blocks.py).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from workloads.traces.format import Format, Head
from workloads.traces.json_folder import first_value, json_files
from workloads.traces.json_rows import Row
from workloads.traces.reading import Reading, wrong_tokens
from workloads.traces.request import MOST_SECONDS, TraceRequest
from workloads.traces.text_blocks import BLOCK_TOKENS, text_blocks, text_tokens, tokens_per_character
from workloads.traces.time_order import rows_by_time


class _Row(Row, frozen=True, gc=False):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS * 1e8)]  # clocks since 1970 count too
    input: str
    output: str | None = None
    session_id: str | int | None = None


def _is_row(value: Any) -> bool:
    keys = {"timestamp", "input", "output", "session_id"}
    return isinstance(value, Mapping) and keys <= set(value) and isinstance(value["input"], str)


def recognises(head: Head) -> bool:
    """Tell by the keys, and by a prompt that is text."""
    return _is_row(head.first)


def recognises_folder(folder: Path) -> bool:
    """Tell by its first file."""
    return _is_row(first_value(folder))


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests by time."""
    per_character = tokens_per_character(reading)
    block_tokens = reading.options.block_tokens or BLOCK_TOKENS
    reading.note(f"tokens are estimated: {per_character:g} a character")
    reading.note(f"prompts share what their texts share, in blocks of {block_tokens} tokens")
    reading.note("the trace does not say how long answers took: gaps are from request to request")
    whole_folder = reading.path.is_dir()
    before_s: dict[str, float] = {}
    for place, row in rows_by_time(reading, json_files(reading.path), _Row, lambda row: row.timestamp):
        prompt_tokens, output_tokens = (text_tokens(text or "", per_character) for text in (row.input, row.output))
        if not prompt_tokens:
            reading.note("empty prompts count as 1 token, which hits nothing")
        prompt_tokens = prompt_tokens or 1
        wrong = wrong_tokens("tokens of input", prompt_tokens) or wrong_tokens("tokens of output", output_tokens, 0)
        if wrong:
            reading.bad(place.number, f"{place.file.name}: {wrong}" if whole_folder else wrong)
            continue
        if not output_tokens:
            reading.note("answers of 0 tokens count as 1")
        at_s = row.timestamp / 1e6
        session = None if row.session_id is None else str(row.session_id)
        gap_s = None
        if session is not None:
            gap_s = at_s - before_s[session] if session in before_s else None
            before_s[session] = at_s
        content = text_blocks(row.input, per_character, block_tokens)
        request = TraceRequest(place.number, prompt_tokens, output_tokens or 1, at_s, session, content, gap_s)
        yield request._replace(file=place.file.name) if whole_folder else request


FORMAT = Format("lmcache", "LMCache text JSONL", recognises, read, recognises_folder=recognises_folder, sorts=True)
