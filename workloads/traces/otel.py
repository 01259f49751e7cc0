"""OpenTelemetry spans of GenAI calls: documents with `spans[]`, lists of such, JSON Lines of them or of single spans.

A model call is a span with `gen_ai.usage.*` or messages; spans above other calls, of agents and tools, are passed over.
Usage counts under its new names (`input_tokens`) and its old ones (`prompt_tokens`); where it is missing, tokens are
estimated from text. What prompts share is known by their messages (message_spans.py). Calls are sorted by their start,
so all of a trace's are held, without their text; a folder is one trace.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workloads.traces.format import Format, Head
from workloads.traces.genai_call import CallFault, GenAiCall, genai_call, is_call
from workloads.traces.json_folder import first_value, json_files
from workloads.traces.json_rows import json_document, json_rows, json_value
from workloads.traces.message_spans import MessageSpans
from workloads.traces.reading import Reading, shown, wrong_tokens
from workloads.traces.request import TraceRequest
from workloads.traces.text_blocks import text_tokens, tokens_per_character
from workloads.traces.text_lines import byte_lines
from workloads.traces.timestamps import epoch_s

_MOST_ABOVE = 100  # spans above a call


class _Placed(NamedTuple):
    """A call, and where it is."""

    file: Path
    row: int
    call: GenAiCall


def recognises(head: Head) -> bool:
    """Tell by `spans`, or by the attributes of a span."""
    return bool(_spans(head.first))


def recognises_folder(folder: Path) -> bool:
    """Tell by its first file."""
    return bool(_spans(first_value(folder)))


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Yield the calls by time."""
    per_character = tokens_per_character(reading)
    messages = MessageSpans()
    over_s: dict[str, float] = {}  # when the session's last answer was complete
    placed = [one for path in json_files(reading.path) for one in _calls(reading, path)]
    for one in sorted(placed, key=lambda one: one.call.start_s):
        request = _request(reading, one, messages, per_character)
        if request is None:
            continue
        session, start_s = one.call.session, one.call.start_s
        before_s = over_s.get(session)
        over_s[session] = max(before_s or 0.0, one.call.end_s)
        gap_s = None if before_s is None or start_s < before_s else start_s - before_s
        yield request._replace(gap_s=gap_s)


def _calls(reading: Reading, path: Path) -> Iterator[_Placed]:
    """Yield the calls of one file; rows are lines, or the numbers of spans where the file is one value."""
    of_file = Reading(path, reading.options, reading.notes)
    _, line = next(byte_lines(path), (0, b""))
    values: Iterator[tuple[int, Any]] = json_rows(of_file, object)
    if json_value(line) is None:
        values = iter([(1, json_document(of_file, object))])
    others = 0
    for number, value in values:
        spans = _spans(value)
        if not spans:
            of_file.bad(number, f"{shown(value)} is neither a span nor has spans")
        several = len(spans) > 1
        around = _around(spans)
        for place, (span, trace) in enumerate(spans, start=1):
            if not is_call(span) or id(span) in around:
                others += 1
                continue
            row = place if several else number
            try:
                yield _Placed(path, row, genai_call(span, trace))
            except CallFault as fault:
                of_file.bad(row, str(fault))
    if others:
        reading.note("spans that are no model call, or lie around one, are passed over")
    reading.bad_rows += of_file.bad_rows
    reading.first_bad = reading.first_bad or of_file.first_bad


def _spans(value: Any) -> list[tuple[Mapping[str, Any], str | None]]:
    """Return the spans of a span, a document of spans, or a list of documents, each with its document's trace."""
    if isinstance(value, list):
        return [span for one in value if isinstance(one, Mapping) for span in _spans(one)]
    if not isinstance(value, Mapping):
        return []
    if isinstance(value.get("spans"), list):
        trace = value.get("trace_id")
        return [(span, trace) for span in value["spans"] if isinstance(span, Mapping)]
    return [(value, None)] if isinstance(value.get("attributes"), Mapping) and "start_time" in value else []


def _around(spans: list[tuple[Mapping[str, Any], str | None]]) -> set[int]:
    """Return the ids of objects of spans that began before a call below them, and ended after it: its wrappers."""
    by_name = {str(span.get("span_id")): span for span, _ in spans}
    around: set[int] = set()
    for span, _ in spans:
        above, steps = span, 0
        while is_call(span) and steps < _MOST_ABOVE:
            above = by_name.get(str(above.get("parent_span_id")), {})
            if not above or not _encloses(above, span):
                break
            around.add(id(above))
            steps += 1
    return around


def _encloses(above: Mapping[str, Any], span: Mapping[str, Any]) -> bool:
    times = [epoch_s(str(one.get(key))) for one in (above, span) for key in ("start_time", "end_time")]
    if None in times or above is span:
        return False
    start_s, end_s, inner_start_s, inner_end_s = (time or 0.0 for time in times)
    return start_s <= inner_start_s and inner_end_s <= end_s


def _request(reading: Reading, placed: _Placed, messages: MessageSpans, per_character: float) -> TraceRequest | None:
    call = placed.call
    prompt_tokens, output_tokens = call.prompt_tokens, call.output_tokens
    if prompt_tokens is None:
        reading.note(f"prompts without usage are estimated: {per_character:g} tokens a character")
        prompt_tokens = sum(text_tokens(message.text, per_character) for message in call.messages)
    if output_tokens is None:
        reading.note(f"answers without usage are estimated: {per_character:g} tokens a character")
        output_tokens = text_tokens(call.answer or "", per_character)
    wrong = wrong_tokens("input tokens", prompt_tokens) or wrong_tokens("output tokens", output_tokens, 0)
    if wrong:
        reading.bad(placed.row, f"{placed.file.name}: {wrong}" if reading.path.is_dir() else wrong)
        return None
    if not output_tokens:
        reading.note("answers of 0 tokens count as 1")
    content = answer = None
    if call.messages:
        content = messages.prompt(call.messages, prompt_tokens)
        if call.answer:
            answer = messages.answer(call.messages, call.answer, output_tokens or 1)
    else:
        reading.note("some calls have no messages: nothing of theirs can be hit")
    request = TraceRequest(placed.row, prompt_tokens, output_tokens or 1, call.start_s, call.session, content)
    file = placed.file.name if reading.path.is_dir() else None
    return request._replace(api_s=call.end_s - call.start_s, answer=answer, file=file)


FORMAT = Format("otel", "OpenTelemetry GenAI spans", recognises, read, recognises_folder=recognises_folder, sorts=True)
