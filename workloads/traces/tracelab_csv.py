"""TraceLab's replay CSV: rounds of agent sessions, each with the tokens kept of the context and those appended.

Times are in ms: `arrival_time` is when the session begins (optional), `tool_wait_after_ms` how long the client waits
after a round's answer. A prompt is `prefix_len + input_len` tokens; the context that it keeps a prefix of is the last
prompt and its answer. Windows cut from a longer trace begin in the middle of sessions, with a prefix nobody has seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workloads.traces.csv_rows import BadCell, CsvRow, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.kept_context import KeptContext
from workloads.traces.reading import Reading, shown
from workloads.traces.request import MOST_SECONDS, MOST_TOKENS, TraceRequest

NEEDED = ("prefix_len", "input_len", "output_len")
_MS = 1e3
_UNSEEN_FIRST = "some sessions begin with a prefix from before the trace: it counts as their own, and as new"
_UNSEEN = "some prefixes are longer than their session's context so far: what is beyond it counts as new"


@dataclass(slots=True)
class _Session:
    context: KeptContext
    round: int = -1
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Round:
    session: str
    number: int | None
    kept_tokens: int
    new_tokens: int
    output_tokens: int
    arrival_s: float | None
    wait_s: float | None


def recognises(head: Head) -> bool:
    """Tell the table by its columns."""
    return set(NEEDED) <= set(head.header) and bool({"session_id", "id"} & set(head.header))


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the rounds in the order of rows, of however many sessions at a time."""
    sessions = dict[str, _Session]()
    reading.note("prompts keep prefix_len tokens of their session's context and add input_len")
    for row in csv_rows(reading, NEEDED):
        try:
            one = _round(row)
        except BadCell as error:
            reading.bad(row.number, str(error))
            continue
        known = sessions.get(one.session)
        session = known or _Session(KeptContext(one.session))
        if one.number is not None and one.number <= session.round:
            reading.bad(row.number, f"round_idx {one.number} comes after {session.round} of the same session")
            continue
        if one.kept_tokens > session.context.held_tokens:
            reading.note(_UNSEEN_FIRST if known is None else _UNSEEN)
        if not one.output_tokens:
            reading.note("answers of 0 tokens count as 1")
        sessions[one.session] = session
        content = session.context.prompt(one.kept_tokens, one.new_tokens)
        answer = session.context.answer(one.output_tokens or 1)
        yield TraceRequest(
            row.number,
            one.kept_tokens + one.new_tokens,
            answer.length,
            one.arrival_s if known is None else None,
            one.session,
            content,
            session.wait_s if known else None,
            answer=answer,
        )
        session.wait_s = one.wait_s
        if one.number is not None:
            session.round = one.number


def _round(row: CsvRow) -> _Round:
    name = row.text("session_id") or row.text("id")
    if not name:
        raise BadCell("session_id (or id) is empty")
    kept, new = row.tokens("prefix_len", 0), row.tokens("input_len", 0)
    if not 1 <= kept + new <= MOST_TOKENS:
        raise BadCell(f"prefix_len + input_len {shown(kept + new)} must be from 1 to {MOST_TOKENS:,}")
    wait_s = row.seconds("tool_wait_after_ms", _MS) if row.text("tool_wait_after_ms") else None
    if wait_s is not None and wait_s > MOST_SECONDS:
        raise BadCell(f"tool_wait_after_ms {shown(row.text('tool_wait_after_ms'))} is more than three years")
    return _Round(
        name,
        row.tokens("round_idx", 0) if row.text("round_idx") else None,
        kept,
        new,
        row.tokens("output_len", 0),
        row.seconds("arrival_time", _MS) if row.text("arrival_time") else None,
        wait_s,
    )


FORMAT = Format("tracelab-csv", "TraceLab replay CSV", recognises, read)
