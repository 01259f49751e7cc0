"""Mooncake's traces: JSON Lines of `timestamp` in ms, `input_length`, `output_length` and `hash_ids`.

Ids are of blocks of 512 tokens, over the whole file, and the last may be partial (ceil). Rows hold the whole prompt.
Multi-turn rows of the same names, with `session_id` and `delay`, are another format: agentic_rows.py.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from workloads.traces.format import Format, Head
from workloads.traces.json_rows import Row, json_rows
from workloads.traces.reading import Reading
from workloads.traces.request import MOST_SECONDS, MOST_TOKENS, BlockIds, TraceRequest

BLOCK_TOKENS = 512
SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)  # in use elsewhere
KEYS = frozenset({"timestamp", "input_length", "output_length"})

Tokens = Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS * 1e5)]  # clocks since 1970 count too


class _Row(Row, frozen=True, gc=False):
    timestamp: Milliseconds
    input_length: Tokens
    output_length: Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
    hash_ids: list[int] | None = None


def recognises(head: Head) -> bool:
    """Tell Mooncake's rows from multi-turn rows of the same names."""
    return head.keys >= KEYS and not head.keys & {"session_id", "delay", "chat_id"}


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests; a row without ids has lengths alone."""
    block_tokens = reading.options.block_tokens or BLOCK_TOKENS
    reading.note(f"rows hold whole prompts; ids are of {block_tokens}-token blocks, the last may be partial")
    for number, row in json_rows(reading, _Row):
        ids, tokens = row.hash_ids, row.input_length
        if not ids:
            reading.note("some rows have no hash_ids: nothing of theirs can be hit")
            content = None
        elif len(ids) != -(-tokens // block_tokens):
            reading.bad(number, _miscounted(ids, tokens, block_tokens))
            continue
        else:
            content = BlockIds(ids, block_tokens)
        output = row.output_length
        if not output:
            reading.note("answers of 0 tokens count as 1")
        yield TraceRequest(number, tokens, output or 1, row.timestamp / 1e3, None, content)


def _miscounted(ids: list[int], tokens: int, block_tokens: int) -> str:
    """Return what is wrong with a number of ids, with the size of block that it would be right for."""
    blocks = -(-tokens // block_tokens)
    hint = next((f": are its blocks of {size} tokens?" for size in SIZES if -(-tokens // size) == len(ids)), "")
    return f"{len(ids)} hash_ids, where {tokens:,} tokens are {blocks} blocks of {block_tokens} tokens{hint}"


FORMAT = Format("mooncake", "Mooncake JSONL", recognises, read)
