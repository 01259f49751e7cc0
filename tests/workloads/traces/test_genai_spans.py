"""OpenTelemetry spans of model calls: lengths by usage or text, sharing by messages, whatever wraps them."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from trace_requests import SAMPLES, needs_samples, opened, read, shared_tokens

from workloads.errors import WorkloadError
from workloads.traces.message_spans import Message, MessageSpans

OTEL = SAMPLES / "otel"


def span(number: int, *said: str, inside: int | None = None, long_s: float = 1.0, **attributes: Any) -> dict[str, Any]:
    """Return a span that begins so many seconds after ten, with messages of user and assistant in turns."""
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(said)]
    usual = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    return {
        "trace_id": "t",
        "span_id": f"s{number}",
        "parent_span_id": None if inside is None else f"s{inside}",
        "start_time": f"2026-02-25T10:00:{number:02d}.000000",
        "end_time": f"2026-02-25T10:{int(number + long_s) // 60:02d}:{(number + long_s) % 60:09.6f}",
        "attributes": usual | {key.replace("__", "."): value for key, value in attributes.items()},
    }


def usage(input_tokens: object, output_tokens: object) -> dict[str, object]:
    """Return the attributes of usage under their new names."""
    return {"gen_ai__usage__input_tokens": input_tokens, "gen_ai__usage__output_tokens": output_tokens}


def write(path: Path, *spans: Any) -> Path:
    """Write one document of spans."""
    path.write_text(json.dumps({"trace_id": "t", "spans": spans}))
    return path


@needs_samples
def test_usage_of_the_sample_is_taken() -> None:
    """Old names; sessions by trace."""
    path = OTEL / "prefix_sharing_example.json"
    spans = json.loads(path.read_text())["spans"]
    requests = read(path)
    assert [one.prompt_tokens for one in requests] == [one["attributes"]["gen_ai.usage.prompt_tokens"] for one in spans]
    assert [one.output_tokens for one in requests] == [
        one["attributes"]["gen_ai.usage.completion_tokens"] for one in spans
    ]
    assert [one.session for one in requests] == [one["trace_id"] for one in spans]
    chat = [one for one in requests if one.session == "conversation_trace"]
    assert [one.api_s for one in chat] == pytest.approx([1.0, 1.5, 1.8, 1.5])
    assert [one.gap_s for one in chat[1:]] == pytest.approx([1.0, 0.5, 0.2])
    for before, after in pairwise(chat):
        assert shared_tokens(before, after) == before.prompt_tokens
        assert before.answer is not None
        assert before.answer in (after.content or ())


@needs_samples
def test_tokens_without_usage_are_estimated_from_text() -> None:
    """Message by message, a quarter of a token a character."""
    path = OTEL / "simple_chain.json"
    spans = json.loads(path.read_text())["spans"]
    texts = [[one["content"] for one in json.loads(span["attributes"]["gen_ai.input.messages"])] for span in spans]
    trace = opened(path)
    requests = list(trace)
    assert [one.prompt_tokens for one in requests] == [sum(math.ceil(len(text) / 4) for text in one) for one in texts]
    assert any("estimated" in note for note in trace.notes)
    for before, after in pairwise(requests):
        assert shared_tokens(before, after) == before.prompt_tokens


@needs_samples
def test_a_folder_of_documents_is_sorted_as_a_whole() -> None:
    """One trace a file, in no order."""
    requests = read(OTEL)
    assert len(requests) == 10
    times = [one.at_s or 0.0 for one in requests]
    assert times == sorted(times)
    assert requests[0].file == "simple_chain.json"


@pytest.mark.parametrize("layout", ["lines of spans", "lines of documents", "list", "one line", "indented"])
def test_every_layout_is_the_same_trace(tmp_path: Path, layout: str) -> None:
    """Exporters write spans in all of them."""
    spans = [span(2, "a", "b", "c", **usage(30, 5)), span(0, "a", **usage(10, 4))]
    path = tmp_path / "spans.json"
    path.write_text(
        {
            "lines of spans": "\n".join(map(json.dumps, spans)),
            "lines of documents": "\n".join(json.dumps({"trace_id": "t", "spans": [one]}) for one in spans),
            "list": json.dumps([{"spans": [one]} for one in spans]),
            "one line": json.dumps({"spans": spans}),
            "indented": json.dumps({"spans": spans}, indent=2),
        }[layout]
    )
    requests = read(path)
    assert [(one.prompt_tokens, one.output_tokens, one.session) for one in requests] == [(10, 4, "t"), (30, 5, "t")]
    assert shared_tokens(*requests) == 10


def test_messages_may_be_lists_or_parts_and_tools_come_first(tmp_path: Path) -> None:
    """Text is text wherever it is."""
    parts = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
    tools = {"gen_ai__tool__definitions": "[{}]" * 10}
    first = span(0, **usage(40, 3), **tools) | {}
    first["attributes"]["gen_ai.input.messages"] = parts
    second = span(2, **usage(60, 3), **tools)
    second["attributes"]["gen_ai.input.messages"] = json.dumps(
        [*parts, {"role": "user", "content": [{"text": "more"}]}]
    )
    requests = read(write(tmp_path / "a.json", first, second))
    assert shared_tokens(*requests) == 40


def test_wrappers_and_tools_are_passed_over(tmp_path: Path) -> None:
    """An agent's span sums up what its calls say; a call after another is no wrapper of it."""
    agent = span(0, long_s=30, **usage(500, 50)) | {}
    agent["attributes"]["gen_ai.operation.name"] = "invoke_agent"
    outer = span(1, "a", inside=0, long_s=4, **usage(10, 1))
    inner = span(2, "a", inside=1, **usage(10, 1))
    later = span(8, "a", "b", "c", inside=2, **usage(20, 2))
    tool = {"span_id": "x", "start_time": "2026-02-25T10:00:09", "end_time": "soon", "attributes": {"tool.name": "ls"}}
    trace = opened(write(tmp_path / "a.json", agent, outer, inner, later, tool))
    assert [one.prompt_tokens for one in trace] == [10, 20]
    assert any("passed over" in note for note in trace.notes)


def test_sessions_go_by_conversation_then_by_trace(tmp_path: Path) -> None:
    """Calls at the same time have no gap between them."""
    spans = [
        span(0, "a", long_s=9, gen_ai__conversation__id="c", **usage(10, 1)),
        span(3, "b", gen_ai__conversation__id="c", **usage("12", 1.0)),
        span(12, "c", gen_ai__conversation__id="c", **usage(10, 1)),
        span(13, "d", **usage(10, 0)),
    ]
    trace = opened(write(tmp_path / "a.json", *spans))
    assert [(one.session, one.gap_s) for one in trace] == [("c", None), ("c", None), ("c", 3.0), ("t", None)]
    assert any("count as 1" in note for note in trace.notes)


def test_messages_share_what_they_begin_with() -> None:
    """Tokens are settled when a message is first met; what cannot be told is nobody else's."""
    known = MessageSpans()
    system, first, second = Message("system", "s" * 100), Message("user", "a" * 50), Message("user", "b" * 50)
    one = known.prompt([system, first], 150)
    assert sum(part.length for part in one) == 150
    other = known.prompt([system, second], 150)
    assert one[0] == other[0]
    assert one[1].content != other[1].content
    assert sum(part.length for part in known.prompt([system], 500)) == 500
    assert sum(part.length for part in known.prompt([system, first], 20)) == 20
    assert known.prompt([], 5) != known.prompt([], 6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (span(1, "a", **usage(True, 1)), "gen_ai.usage.input_tokens True must be a whole number"),
        (span(1, "a", **usage(10, -1)), "gen_ai.usage.output_tokens -1 must be a whole number from 0"),
        (span(1, "a", **usage(1e308, 1)), "gen_ai.usage.input_tokens 1e+308 must be"),
        (span(1, "a", **usage(10, [1])), "gen_ai.usage.output_tokens [1] must be"),
        (span(1, "a", **usage(10.5, 1)), "gen_ai.usage.input_tokens 10.5 must be"),
        (span(1, **usage(None, 5)), "input tokens 0 must be a whole number from 1"),
        (span(1, "a", **usage(10, 1)) | {"start_time": None}, "start_time None must be a time"),
        (span(1, "a", **usage(10, 1)) | {"end_time": "2020-01-01T00:00:00"}, "is before start_time"),
        (span(1, "a", **usage(10, 1)) | {"trace_id": ["x"]}, "trace_id ['x'] must be text"),
        (span(1, **usage(10, 1), gen_ai__prompt="["), None),
        (
            span(1, **usage(10, 1)) | {"attributes": {"gen_ai.prompt": json.loads("[" * 30 + "]" * 30)}},
            "nested more than",
        ),
    ],
)
def test_bad_spans_are_named_or_counted(tmp_path: Path, bad: dict[str, Any], message: str | None) -> None:
    """By their number in the document, or their line."""
    path = write(tmp_path / "a.json", span(0, "x", **usage(5, 5)), bad)
    if message is None:
        assert len(read(path)) == 2
        return
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert f"{path}:2: " in str(raised.value)
    assert message in str(raised.value)
    trace = opened(path, skip_bad_rows=True)
    assert len(list(trace)) == 1
    assert trace.bad_rows == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"spans": []}', "no format known here"),
        ('{"spans": [{"attributes": {}, "start_time": "x"}]}', "no requests in it"),
        ('{"spans": [{"attributes": {}', "no format known here"),
        (
            json.dumps({"spans": [span(0, "a")]}) + '\n{"spans": 5}\n',
            ":2: {'spans': 5} is neither a span nor has spans",
        ),
        (json.dumps({"spans": [span(0, "a")]}) + "\n" + '{"a":' * 50_000, ":2: "),
        ('{"spans": ' + "[" * 100_000, "no format known here"),
    ],
)
def test_bad_documents_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """With one line."""
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert message in str(raised.value)
