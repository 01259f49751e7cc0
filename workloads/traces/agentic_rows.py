"""Multi-turn rows with Mooncake's names, as AIPerf and Dynamo write them: `session_id`, and `delay` in ms.

A session's first row holds a whole prompt. What later rows hold is not told, so the first of them that a file has
decides for all: where it has a `delay` it holds what is new (delta), and its prompt is the last one, the answer and the
row's blocks. Unless its ids begin as the session's do: then, as without `delay`, it is a whole prompt (cumulative).
Blocks lie on one line of content, block `i` from point `i * block_tokens` on, so that a run of ids is one span.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, cast

import msgspec

from workloads.span import Span, joined
from workloads.traces.format import Format, Head
from workloads.traces.json_rows import Row, json_rows
from workloads.traces.mooncake import BLOCK_TOKENS, Milliseconds, Tokens
from workloads.traces.reading import Reading, shown
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
    context: tuple[Span, ...] = ()
    tokens: int = 0


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
        kind = _kind(row, before) if rows is None and before is not None else rows
        known = before or _Session(row.hash_ids[0] if row.hash_ids else None, 0.0)
        if kind == "cumulative" or row.is_restart:
            known = known._replace(context=(), tokens=0)
        fault = _begins_again(row, before, kind) or _fault(row, block_tokens, known)
        if fault:
            reading.bad(number, fault)
            continue
        rows = kind
        _note(reading, row, None if before is None else rows)
        request = _request(number, row, name, known, block_tokens)
        if before is None:
            request = request._replace(gap_s=None)
        sessions[name] = _after(request, known)
        yield request if rows != "cumulative" else request._replace(answer=None)


def _request(number: int, row: _Row, name: str, known: _Session, block_tokens: int) -> TraceRequest:
    """Return a row as a request: what is known of its session, and what the row holds."""
    output = row.output_length or 1
    return TraceRequest(
        number,
        known.tokens + row.input_length,
        output,
        None if row.timestamp is None else row.timestamp / 1e3,
        name,
        joined((*known.context, *_own_spans(row, (name, number), block_tokens))),
        None if row.delay is None else row.delay / 1e3,
        answer=Span((name, number, "answer"), 0, output),
    )


def _after(request: TraceRequest, known: _Session) -> _Session:
    spans, answer = request.content, request.answer
    assert isinstance(spans, tuple)
    assert answer is not None
    at_s = known.at_s if request.at_s is None else request.at_s
    context = cast("tuple[Span, ...]", (*spans, answer))
    return _Session(known.first_id, at_s, context, request.prompt_tokens + answer.length)


def _kind(row: _Row, before: _Session) -> Literal["cumulative", "delta"]:
    repeats = row.hash_ids and row.hash_ids[0] == before.first_id
    return "cumulative" if row.delay is None or repeats else "delta"


def _note(reading: Reading, row: _Row, rows: str | None) -> None:
    """Tell how a row was read; `rows` is None of a session's first."""
    if rows == "cumulative":
        reading.note("rows after a session's first were read as whole prompts (rows=delta reads them as what is new)")
    elif rows == "delta":
        reading.note("rows after a session's first were read as what is new (rows=cumulative: as whole prompts)")
    if rows is not None and row.is_restart:
        reading.note("a session begins anew with a row that says is_restart")
    if not row.hash_ids:
        reading.note("some rows have no hash_ids: what they add is of their session alone")
    if not row.output_length:
        reading.note("answers of 0 tokens count as 1")


def _begins_again(row: _Row, before: _Session | None, kind: str | None) -> str | None:
    """Return a fault where what only a session's first row has, a time and no delay, comes after other rows of it."""
    if before is None or kind != "delta" or row.is_restart or row.timestamp is None or row.delay is not None:
        return None
    return f"session {shown(row.session_id)} begins here, but rows of it are above: it is there twice, or out of order"


def _fault(row: _Row, block_tokens: int, known: _Session) -> str | None:
    blocks, tokens = -(-row.input_length // block_tokens), known.tokens + row.input_length
    if row.hash_ids and len(row.hash_ids) != blocks:
        return (
            f"{len(row.hash_ids)} hash_ids, where {row.input_length:,} tokens are {blocks} blocks "
            f"of {block_tokens} tokens"
        )
    if tokens > MOST_TOKENS:
        return f"the session's prompt grows to {tokens:,} tokens: are its rows whole prompts (rows=cumulative)?"
    if row.timestamp is not None and row.timestamp / 1e3 < known.at_s:
        return f"{row.timestamp / 1e3:.10g} s is before the session's last {known.at_s:.10g} s: times must ascend"
    return None


def _own_spans(row: _Row, line: tuple[str, int], block_tokens: int) -> tuple[Span, ...]:
    """Return the row's own tokens; without ids they lie on a line of their own."""
    if not row.hash_ids:
        return (Span(line, 0, row.input_length),)
    spans = [Span(_BLOCKS, one * block_tokens, block_tokens) for one in row.hash_ids]
    spans[-1] = spans[-1]._replace(length=row.input_length - (len(spans) - 1) * block_tokens)
    return tuple(spans)


FORMAT = Format("agentic-rows", "multi-turn rows (AIPerf, Dynamo)", recognises, read)
