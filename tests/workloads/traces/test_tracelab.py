"""TraceLab's rounds, as replay CSV and as JSON Lines: what prompts keep, when they are sent, and bad rows."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace_files import SAMPLES, by_session, needs_samples, notes_of, refusal_of, requests_of, write_rows
from workloads.span import Span, total_tokens
from workloads.traces.format import Clock
from workloads.traces.kept_context import KeptContext, first_tokens
from workloads.traces.open import open_trace
from workloads.traces.request import HUMAN, TOOL, TraceRequest

CSV = SAMPLES / "tracelab" / "multi_session_large.csv"
JSONL = SAMPLES / "tracelab" / "round_trace.sanitized.jsonl"
HEADER = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"


def spans(request: TraceRequest) -> tuple[Span, ...]:
    """Return the content of a request, which is spans in these formats."""
    assert isinstance(request.content, tuple)
    return request.content  # type: ignore[return-value]


def table(path: Path, rows: str, header: str = HEADER) -> Path:
    """Write a CSV file."""
    path.write_text(header + rows, encoding="utf-8")
    return path


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 9)), max_size=30))
def test_a_prompt_shares_with_the_last_context_what_it_keeps_and_no_more(rounds: list[tuple[int, int, int]]) -> None:
    """Whatever is kept, added and answered: token by token."""
    context, before = KeptContext("s"), list[tuple[Any, int]]()
    for kept, new, output in rounds:
        held = context.held_tokens
        prompt = context.prompt(kept, new)
        tokens = [(span.content, span.start + place) for span in prompt for place in range(span.length)]
        assert len(tokens) == kept + new
        assert tokens[: min(kept, held)] == before[: min(kept, held)]
        assert not set(tokens[min(kept, held) :]) & set(before)
        answer = context.answer(output)
        before = [*tokens, *((answer.content, answer.start + place) for place in range(output))]
        assert context.held_tokens == len(before) == total_tokens(context.spans)


def test_the_front_of_spans_is_cut_inside_one() -> None:
    """All of them, where there are not enough."""
    both = (Span("a", 3, 5), Span("b", 0, 4))
    assert first_tokens(both, 7) == (Span("a", 3, 5), Span("b", 0, 2))
    assert first_tokens(both, 5) == both[:1]
    assert first_tokens(both, 99) == both
    assert first_tokens(both, 0) == ()


@needs_samples
def test_the_sample_table_is_read_to_the_token() -> None:
    """Its sessions only grow, so each prompt is one span of its session; waits are the row's before."""
    with CSV.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    requests = requests_of(CSV)
    assert len(requests) == len(rows) == 303
    assert len(by_session(requests)) == len({row["session_id"] for row in rows}) == 48
    waits: dict[str, float] = {}
    for row, one in zip(rows, requests, strict=True):
        name = row["session_id"]
        assert (one.session, one.output_tokens) == (name, int(row["output_len"]))
        assert one.prompt_tokens == int(row["prefix_len"]) + int(row["input_len"])
        assert spans(one) == (Span((name, 0), 0, one.prompt_tokens),)
        assert one.answer == Span((name, 0), one.prompt_tokens, one.output_tokens)
        assert one.gap_s == waits.get(name)
        assert one.at_s == (None if name in waits else int(row["arrival_time"]) / 1000)
        waits[name] = int(row["tool_wait_after_ms"]) / 1000
    assert "longer than" not in notes_of(CSV)


def test_a_window_may_begin_anywhere_and_name_sessions_id(tmp_path: Path) -> None:
    """Rounds count from 0, from 1 or from the middle; what was said before is the session's own."""
    path = table(
        tmp_path / "a.csv",
        "x,7,1000,20,5,30\ny,1,0,10,5,\nx,8,1025,1,5,\n",
        "id,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n",
    )
    first, other, second = requests_of(path)
    assert (first.session, first.at_s, first.prompt_tokens) == ("x", None, 1020)
    assert spans(second) == (Span(("x", 0), 0, 1026),)
    assert second.gap_s == 0.03
    assert spans(other) == (Span(("y", 0), 0, 10),)
    assert "from before the trace" in notes_of(path)


def test_a_prefix_longer_than_the_context_is_new_content(tmp_path: Path) -> None:
    """The context is 10 + 5 tokens, the prefix 40; a shorter one drops the rest for good."""
    path = table(tmp_path / "a.csv", "x,0,0,0,10,5,0\nx,0,1,40,2,5,0\nx,0,2,12,3,5,0\nx,0,3,15,1,5,0\n")
    a, b, c, d = requests_of(path)
    assert spans(b) == (Span(("x", 0), 0, 42),)
    assert spans(c) == (Span(("x", 0), 0, 12), Span(("x", 1), 0, 3))
    assert spans(d) == (*spans(c), Span(("x", 2), 0, 1))
    assert "longer than their session's context so far" in notes_of(path)
    assert a.answer == Span(("x", 0), 10, 5)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("x,0,0,10,5,5,0", ":3: round_idx 0 comes after 0 of the same session"),
        (",0,1,10,5,5,0", ":3: session_id (or id) is empty"),
        ("x,0,1,10,,5,0", ":3: input_len '' must be a whole number from 0"),
        ("x,0,1,0,0,5,0", ":3: prefix_len + input_len 0 must be from 1 to 10,000,000"),
        ("x,0,1,10000000,1,5,0", ":3: prefix_len + input_len 10000001 must be"),
        ("x,0,1,10,1_0,5,0", ":3: input_len '1_0' must be a whole number"),
        ("x,0,1,10,5,5,nan", ":3: tool_wait_after_ms 'nan' must be a time of at least 0"),
        ("x,0,1,10,5,5,1e12", ":3: tool_wait_after_ms '1e12' is more than three years"),
        ("y,-1,0,10,5,5,0", ":3: arrival_time '-1' must be a time of at least 0"),
        ("y,1e308,0,10,5,5,0", ":3: arrival_time '1e308' must be a time of at least 0"),
        ("y,0", ":3: 2 cells, where 7 are expected"),
        ('y,"0', ":3: no row of a CSV file"),
    ],
)
def test_a_bad_row_of_a_table_is_named_or_skipped(tmp_path: Path, bad: str, message: str) -> None:
    """The session goes on without it."""
    path = table(tmp_path / "a.csv", f"x,1,0,0,10,5,0\n{bad}\nx,1,9,15,1,5,0\n")
    assert message in refusal_of(path)
    assert [one.row for one in requests_of(path, skip_bad_rows=True)] == [2, 4]


def test_sessions_of_a_table_must_ascend(tmp_path: Path) -> None:
    """By their arrival."""
    path = table(tmp_path / "a.csv", "x,5000,0,0,10,5,0\ny,1000,0,0,10,5,0\n")
    assert ":3: 1 s is before the 5 s above it: times must ascend" in refusal_of(path)


@needs_samples
def test_the_sample_rounds_are_read_to_the_token_and_the_millisecond() -> None:
    """A Claude and a Codex session; tokens from the rows, times from their events."""
    rows = [json.loads(line) for line in JSONL.read_text(encoding="utf-8").splitlines()]
    requests = requests_of(JSONL)
    assert [one.prompt_tokens for one in requests] == [row["input_tokens_total"] for row in rows]
    assert [one.output_tokens for one in requests] == [row["output_tokens"] for row in rows]
    claude, codex = by_session(requests).values()
    assert (len(claude), len(codex)) == (10, 9)
    assert [one.driver for one in claude[:5]] == [HUMAN, TOOL, TOOL, TOOL, TOOL]
    assert claude[5].driver == HUMAN
    assert (claude[0].at_s, claude[0].gap_s, claude[0].api_s) == (0.0, None, 11.496)
    assert (claude[1].at_s, claude[1].gap_s, claude[1].api_s) == (30.787, 19.291, 13.924)
    assert (codex[0].at_s, codex[0].api_s) == (0.0, 6.2)
    assert open_trace(JSONL).format.clock is Clock.SESSION


@needs_samples
def test_a_server_that_forgot_does_not_change_what_prompts_hold() -> None:
    """All rounds of the Claude session extend each other; in Codex's one is shorter, and keeps what was cached."""
    claude, codex = by_session(requests_of(JSONL)).values()
    assert all(len(spans(one)) == 1 for one in claude)
    assert [len(spans(one)) for one in codex] == [1, 1, 1, 1, 1, 2, 2, 3, 3]
    assert spans(codex[5])[0].length == 9216


def rounds(session: str, index: int | None, prefix: int | None, new: int | None, **more: Any) -> dict[str, Any]:
    """Return a row."""
    row = {"session_id": session, "round_index": index, "prefix_tokens": prefix, "newly_append_tokens": new}
    return {**row, "output_tokens": 5, **more}


def events(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """Return events of one day."""
    return [{"event_type": kind, "timestamp": f"2026-01-01T{at}Z"} for kind, at in pairs]


def test_rounds_may_lack_all_but_tokens(tmp_path: Path) -> None:
    """Null is as good as missing; other sessions may lie between."""
    bare = {"session_id": "b", "prefix_tokens": 0, "newly_append_tokens": 7}
    rows = [rounds("a", None, 10, 5, output_tokens=None), bare, rounds("a", None, 0, 30, timing_events=None)]
    first, other, second = requests_of(write_rows(tmp_path / "a", rows))
    assert (first.output_tokens, first.at_s, first.gap_s, first.api_s, first.driver) == (1, None, None, None, None)
    assert other.output_tokens == 1
    assert spans(second) == (Span(("a", 0), 0, 30),)


def test_a_gap_is_from_the_answer_to_the_last_input(tmp_path: Path) -> None:
    """A tool that was done before the answer ended leaves none; times without a zone are in UTC."""
    rows = [
        rounds(
            "a",
            0,
            0,
            9,
            timing_events=events(("user_message", "10:00:00"), ("text", "10:00:05"), ("usage_report", "10:09:00")),
        ),
        rounds("a", 1, 0, 20, timing_events=events(("tool_result", "10:00:04"), ("tool_call", "10:00:08"))),
        rounds("a", 2, 0, 30, timing_events=[{"event_type": "tool_result", "timestamp": "2026-01-01T10:00:09.5"}]),
        rounds("a", 3, 0, 40, timing_events=events(("user_message", "10:00:11"), ("reasoning", "10:00:12"))),
    ]
    requests = requests_of(write_rows(tmp_path / "a", rows))
    assert [(one.at_s, one.gap_s, one.api_s) for one in requests] == [
        (0.0, None, 5.0),
        (4.0, 0.0, 4.0),
        (9.5, 1.5, None),
        (11.0, 1.5, 1.0),
    ]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (rounds("a", 0, 0, 9), ":2: round_index 0 comes after 0 of the same session"),
        (rounds("a", 1, 0, 0), ":2: prefix_tokens + newly_append_tokens 0 must be from 1 to 10,000,000"),
        (rounds("a", 1, None, 9), ":2: prefix_tokens: expected int, got null"),
        (rounds("a", 1, 0, 10**15), ":2: newly_append_tokens: expected int <= 10000000"),
        (rounds("a", 1, 0, 9, timing_events=events(("text", "25:00:00"))), ":2: timing_events[0].timestamp: invalid"),
        (
            rounds("a", 1, 0, 9, timing_events=events(("user_message", "09:00:00"))),
            ":2: the round was sent before the last of its session: times must ascend",
        ),
        (
            rounds("a", 1, 0, 9, timing_events=[{"event_type": "tool_result", "timestamp": "9999-01-01T00:00:00Z"}]),
            ":2: the round was sent more than three years after the first of its session",
        ),
    ],
)
def test_a_bad_round_is_named_or_skipped(tmp_path: Path, bad: dict[str, Any], message: str) -> None:
    """The session goes on without it."""
    first = rounds("a", 0, 0, 9, timing_events=events(("user_message", "10:00:00"), ("text", "10:00:05")))
    path = write_rows(tmp_path / "a", [first, bad, rounds("a", 5, 14, 2)])
    assert message in refusal_of(path)
    assert [(one.row, one.prompt_tokens) for one in requests_of(path, skip_bad_rows=True)] == [(1, 9), (3, 16)]
