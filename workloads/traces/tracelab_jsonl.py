"""TraceLab's rounds of Claude Code and Codex sessions: JSON Lines with token counts and events, without content.

`prefix_tokens` is what the recorded server had cached, not what prompts share: it forgot, as every cache does. So
content is taken from lengths. A prompt at least as long as the session's last one extends it, and its answer as far as
it is long enough; a shorter one was compacted, and keeps what was cached of it. Times count from the session's start,
since a trace lists session by session what months and many people lie between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from workloads.traces.format import Clock, Format, Head
from workloads.traces.json_rows import Row, json_rows
from workloads.traces.kept_context import KeptContext
from workloads.traces.reading import Reading
from workloads.traces.request import HUMAN, MOST_SECONDS, MOST_TOKENS, TOOL, TraceRequest

_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
_DRIVERS = {"user_message": HUMAN, "tool_result": TOOL}
_AFTER_ANSWERS = "usage_report"  # of bookkeeping


class _Event(Row, frozen=True, gc=False):
    event_type: str | None = None
    timestamp: datetime | None = None


class _Row(Row, frozen=True, gc=False):
    session_id: str | int
    prefix_tokens: _Count
    newly_append_tokens: _Count
    output_tokens: _Count | None = None
    round_index: Annotated[int, msgspec.Meta(ge=0)] | None = None
    first_input_event_type: str | None = None
    timing_events: list[_Event] | None = None


@dataclass(slots=True)
class _Session:
    context: KeptContext
    prompt_tokens: int = 0  # the last one's
    round: int = -1
    begin_s: float | None = None  # since 1970
    sent_s: float = 0.0  # of the last round
    end_s: float | None = None  # of the last answer


def recognises(head: Head) -> bool:
    """Tell rounds by the split of their prompts."""
    return head.keys >= {"session_id", "prefix_tokens", "newly_append_tokens"}


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the rounds in the order of rows, of however many sessions at a time."""
    sessions = dict[str, _Session]()
    reading.note(
        "prompts extend their session's last prompt and answer as far as lengths allow; "
        "what the recorded server had cached is not taken for content, except after compaction"
    )
    for number, row in json_rows(reading, _Row):
        name = str(row.session_id)
        known = sessions.get(name)
        session = known or _Session(KeptContext(name))
        sent_s, end_s = _span_s(row.timing_events or ())
        fault = _fault(row, session, sent_s)
        if fault:
            reading.bad(number, fault)
            continue
        if not row.output_tokens:
            reading.note("answers of 0 tokens, or of unknown length, count as 1")
        if known is None and row.prefix_tokens:
            reading.note("what was cached of a session's first prompt, perhaps from other sessions, counts as its own")
        sessions[name] = session
        prompt = row.prefix_tokens + row.newly_append_tokens
        kept = _kept_tokens(row, session, prompt)
        content = session.context.prompt(kept, prompt - kept)
        answer = session.context.answer(row.output_tokens or 1)
        session.begin_s = sent_s if session.begin_s is None else session.begin_s
        yield TraceRequest(
            number,
            prompt,
            answer.length,
            _between_s(session.begin_s, sent_s),
            name,
            content,
            _between_s(session.end_s, sent_s),
            _between_s(sent_s, end_s),
            _DRIVERS.get(row.first_input_event_type or ""),
            answer=answer,
        )
        session.prompt_tokens = prompt
        session.round = session.round if row.round_index is None else row.round_index
        session.sent_s = session.sent_s if sent_s is None else sent_s
        session.end_s = sent_s if end_s is None else end_s


def _between_s(first_s: float | None, then_s: float | None) -> float | None:
    """Return the time between two events, or None; a tool may be done before the answer that called it."""
    return None if first_s is None or then_s is None else max(0.0, round(then_s - first_s, 6))


def _kept_tokens(row: _Row, session: _Session, prompt: int) -> int:
    """Return how many tokens of the front are those of the last prompt and answer."""
    held = session.context.held_tokens
    if prompt >= held:
        return held
    if prompt >= session.prompt_tokens:  # part of the answer was left out: what it thought, which comes first
        return max(session.prompt_tokens, min(row.prefix_tokens, held))
    return min(row.prefix_tokens, held)


def _fault(row: _Row, session: _Session, sent_s: float | None) -> str | None:
    prompt = row.prefix_tokens + row.newly_append_tokens
    if not 1 <= prompt <= MOST_TOKENS:
        return f"prefix_tokens + newly_append_tokens {prompt:,} must be from 1 to {MOST_TOKENS:,}"
    if row.round_index is not None and row.round_index <= session.round:
        return f"round_index {row.round_index} comes after {session.round} of the same session"
    if sent_s is not None and session.begin_s is not None:
        if sent_s < session.sent_s:
            return "the round was sent before the last of its session: times must ascend"
        if sent_s > session.begin_s + MOST_SECONDS:
            return "the round was sent more than three years after the first of its session"
    return None


def _span_s(events: Sequence[_Event]) -> tuple[float | None, float | None]:
    """Return when a round was sent, with the last of its inputs, and when its answer ended; since 1970."""
    sent, end = None, None
    for event in events:
        if event.timestamp is None or event.event_type == _AFTER_ANSWERS:
            continue
        at_s = (event.timestamp if event.timestamp.tzinfo else event.timestamp.replace(tzinfo=UTC)).timestamp()
        if event.event_type not in _DRIVERS:
            end = at_s
        elif end is None:
            sent = at_s
    return sent, end


FORMAT = Format("tracelab-jsonl", "TraceLab rounds JSONL", recognises, read, Clock.SESSION)
