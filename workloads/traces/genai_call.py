"""One span of OpenTelemetry as a model call: what its attributes say, under any of the names in use."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workloads.traces.json_rows import json_value
from workloads.traces.message_spans import Message
from workloads.traces.reading import shown
from workloads.traces.request import MOST_TOKENS
from workloads.traces.timestamps import epoch_s

_NO_CALLS = {"invoke_agent", "create_agent", "execute_tool", "embeddings", "invoke_workflow"}
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_FRONT = ("gen_ai.tool.definitions", "gen_ai.system_instructions")
_MESSAGES = ("gen_ai.input.messages", "gen_ai.prompt")
_ANSWER = ("gen_ai.output.messages", "gen_ai.completion")
_ANSWER_TEXT = "gen_ai.output.text"
_SESSION = ("gen_ai.conversation.id", "session.id")
_SESSION_OF_BENCHMARK = ("exgentic.session.id",)  # its examples all say "session"
_DEEPEST = 20  # lists and objects in the content of a message


class CallFault(ValueError):  # noqa: N818 - not for users: it becomes a bad row
    """What is wrong with a span, in words."""


class GenAiCall(NamedTuple):
    """One model call."""

    start_s: float
    end_s: float
    session: str
    prompt_tokens: int | None
    output_tokens: int | None
    messages: tuple[Message, ...]
    answer: str | None


def is_call(span: Mapping[str, Any]) -> bool:
    """Tell a model call from spans of agents, tools and everything else."""
    attributes = span.get("attributes")
    if not isinstance(attributes, Mapping) or str(attributes.get("gen_ai.operation.name")) in _NO_CALLS:
        return False
    return any(key in attributes for key in (*_INPUT, *_OUTPUT, *_MESSAGES))


def genai_call(span: Mapping[str, Any], trace: str | None) -> GenAiCall:
    """Return a span that is a model call; raises CallFault."""
    attributes = span["attributes"]
    start_s, end_s = _time(span, "start_time"), _time(span, "end_time")
    if end_s < start_s:
        raise CallFault(f"end_time {shown(span['end_time'])} is before start_time {shown(span['start_time'])}")
    session = _first(attributes, _SESSION) or span.get("trace_id") or trace or _first(attributes, _SESSION_OF_BENCHMARK)
    if not isinstance(session, str | int) or isinstance(session, bool):
        raise CallFault(f"trace_id {shown(session)} must be text")
    front = [Message("system", _text(attributes[key])) for key in _FRONT if attributes.get(key)]
    return GenAiCall(
        start_s,
        end_s,
        str(session),
        _tokens(attributes, _INPUT, 1),
        _tokens(attributes, _OUTPUT, 0),
        (*front, *_messages(_first(attributes, _MESSAGES))),
        _answer(attributes),
    )


def _answer(attributes: Mapping[str, Any]) -> str | None:
    if isinstance(attributes.get(_ANSWER_TEXT), str):
        return str(attributes[_ANSWER_TEXT])
    messages = _first(attributes, _ANSWER)
    return None if messages is None else "\n".join(message.text for message in _messages(messages))


def _first(attributes: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((attributes[key] for key in keys if attributes.get(key) is not None), None)


def _time(span: Mapping[str, Any], key: str) -> float:
    value = span.get(key)
    at_s = epoch_s(value) if isinstance(value, str) else None
    if at_s is None:
        raise CallFault(f"{key} {shown(value)} must be a time such as 2026-02-25T10:00:00.000000")
    return at_s


def _tokens(attributes: Mapping[str, Any], keys: Sequence[str], least: int) -> int | None:
    """Return a count, also where it is written as text; None where there is none, or 0 of a prompt."""
    for key in keys:
        value = attributes.get(key)
        if value is None:
            continue
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
            raise CallFault(f"{key} {shown(value)} must be a whole number from 0 to {MOST_TOKENS:,}")
        return value if value >= least else None
    return None


def _messages(value: Any) -> list[Message]:
    """Return messages that are a list, such a list as JSON text, or plain text."""
    if isinstance(value, str):
        inner = json_value(value)
        if not isinstance(inner, list | dict):
            return [Message("user", value)] if value else []
        value = inner
    if isinstance(value, Mapping):
        value = value.get("messages", [value])
    if not isinstance(value, list):
        return []
    return [_message(one) for one in value]


def _message(value: Any) -> Message:
    if not isinstance(value, Mapping):
        return Message("user", _text(value))
    said = {key: one for key, one in value.items() if key not in {"role", "finish_reason"}}
    return Message(str(value.get("role", "user")), _text(said))


def _text(value: Any, depth: int = 0) -> str:
    """Return all text in a value, in its order: content is a string, or parts, or calls of tools."""
    if isinstance(value, str):
        return value
    if depth == _DEEPEST:
        raise CallFault(f"messages are nested more than {_DEEPEST} deep")
    if isinstance(value, Mapping):
        return "\n".join(filter(None, (_text(one, depth + 1) for key, one in value.items() if key != "type")))
    if isinstance(value, list):
        return "\n".join(filter(None, (_text(one, depth + 1) for one in value)))
    return "" if value is None else str(value)
