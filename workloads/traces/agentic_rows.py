"""Multi-turn rows with Mooncake's names, as AIPerf and Dynamo write them: `session_id`, and `delay` in ms.

A session's first row holds a whole prompt. What later rows hold is not told, so the first of them that a file has
decides for all: where it has a `delay` it holds what is new (delta), and its prompt is the last one, the answer and the
row's blocks. Unless its ids begin as the session's do: then, as without `delay`, it is a whole prompt (cumulative).
Blocks lie on one line of content, block `i` from point `i * block_tokens` on, so that a run of ids is one span.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

import msgspec

from workloads.span import Span, joined
from workloads.traces.format import Format, Head
from workloads.traces.json_rows import Row, json_rows
from workloads.traces.mooncake import BLOCK_TOKENS, Milliseconds, Tokens
from workloads.traces.reading import Reading
from workloads.traces.request import MOST_SECONDS, MOST_TOKENS, TraceRequest

_BLOCKS = "blocks"  # the line of content that all sessions share


class _Row(Row, frozen=True, gc=False):
    session_id: str | int
    input_length: Tokens
    output_length: Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
    timestamp: Milliseconds | None = None
    delay: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS * 1e3)] | None = None
    hash_ids: list[int] | None = None
    is_restart: bool | None = None


class _Session(NamedTuple):
    """What is known of a session after a row: in deltas, `context` is its last prompt and the answer."""

    first_id: int | None
    at_s: float
    context: tuple[Span, ...]
    tokens: int


def recognises(head: Head) -> bool:
    """Tell rows of sessions from rows that stand alone."""
    return head.keys >= {"session_id", "input_length", "output_length"} and "chat_id" not in head.keys


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the requests in the order of rows, of however many sessions at a time."""
    block_tokens = reading.options.block_tokens or BLOCK_TOKENS
    rows, sessions = reading.options.rows, dict[str, _Session]()
    for number, row in json_rows(reading, _Row):
        name = str(row.session_id)
        before = sessions.get(name)
        if before is not None and rows is None:
            rows = _kind(row, before)
        if before is not None:
            _note(reading, rows, row)
        grows = before is not None and rows != "cumulative" and not row.is_restart
        context, held = (before.context, before.tokens) if before is not None and grows else ((), 0)
        tokens, at_s = held + row.input_length, None if row.timestamp is None else row.timestamp / 1e3
        fault = _fault(row, block_tokens, tokens, at_s, before)
        if fault:
            reading.bad(number, fault)
            continue
        new = _new_spans(row, (name, number), block_tokens)
        if not row.hash_ids:
            reading.note("some rows have no hash_ids: what they add is of their session alone")
        if not row.output_length:
            reading.note("answers of 0 tokens count as 1")
        output = row.output_length or 1
        spans, answer = joined((*context, *new)), Span((name, number, "answer"), 0, output)
        first_id = row.hash_ids[0] if row.hash_ids else None
        keeps = (*spans, answer) if rows != "cumulative" else ()
        sessions[name] = _Session(
            first_id if before is None else before.first_id,
            at_s if at_s is not None else before.at_s if before else 0.0,
            keeps,
            tokens + output,
        )
        yield TraceRequest(
            number,
            tokens,
            output,
            at_s,
            name,
            spans,
            None if row.delay is None or before is None else row.delay / 1e3,
            answer=None if rows == "cumulative" else answer,
        )


def _kind(row: _Row, before: _Session) -> Literal["cumulative", "delta"]:
    repeats = row.hash_ids and row.hash_ids[0] == before.first_id
    return "cumulative" if row.delay is None or repeats else "delta"


def _note(reading: Reading, rows: str | None, row: _Row) -> None:
    if rows == "cumulative":
        reading.note("rows after a session's first were read as whole prompts (rows=delta reads them as what is new)")
    else:
        reading.note("rows after a session's first were read as what is new (rows=cumulative: as whole prompts)")
    if row.is_restart:
        reading.note("a session begins anew with a row that says is_restart")


def _fault(row: _Row, block_tokens: int, tokens: int, at_s: float | None, before: _Session | None) -> str | None:
    blocks = -(-row.input_length // block_tokens)
    if row.hash_ids and len(row.hash_ids) != blocks:
        return (
            f"{len(row.hash_ids)} hash_ids, where {row.input_length:,} tokens are {blocks} blocks "
            f"of {block_tokens} tokens"
        )
    if tokens > MOST_TOKENS:
        return f"the session's prompt grows to {tokens:,} tokens: are its rows whole prompts (rows=cumulative)?"
    if before is not None and at_s is not None and at_s < before.at_s:
        return f"{at_s:.10g} s is before the session's last {before.at_s:.10g} s: times must ascend"
    return None


def _new_spans(row: _Row, line: tuple[str, int], block_tokens: int) -> tuple[Span, ...]:
    """Return the row's own tokens; without ids they lie on a line of their own."""
    if not row.hash_ids:
        return (Span(line, 0, row.input_length),)
    spans = [Span(_BLOCKS, one * block_tokens, block_tokens) for one in row.hash_ids]
    last = row.input_length - (len(spans) - 1) * block_tokens
    spans[-1] = spans[-1]._replace(length=last)
    return tuple(spans)


FORMAT = Format("agentic-rows", "multi-turn rows (AIPerf, Dynamo)", recognises, read)
