"""inference-perf's `conversation_replay` configurations: conversations described by distributions, drawn one by one.

A conversation has a system prompt all share, one of its own, and turns of new tokens and answers, with a pause for
tools after each. Where `max_model_len` would be passed, the oldest turns are dropped (drawn_session.py).
"""

from collections.abc import Iterator

import numpy as np

from workloads.span import Span
from workloads.traces.bounded import Bounded, constant
from workloads.traces.drawn_session import DrawnTurn, numbered, session_requests
from workloads.traces.format import Clock, Format, Head
from workloads.traces.inference_perf_spec import Count, Distribution, Length, note_stages
from workloads.traces.json_rows import Row
from workloads.traces.reading import Reading
from workloads.traces.request import MOST_TOKENS, TraceRequest
from workloads.traces.spec_document import spec_document, yaml_keys

NAME = "conversation_replay"
_PATH = ("data", NAME)
_DEFAULT_MOST_TOKENS = 225_000
_MARGIN_TOKENS = 200  # that inference-perf keeps free


class Conversations(Row, frozen=True, gc=False):
    """The configuration, with inference-perf's defaults."""

    num_conversations: Count = 200
    shared_system_prompt_len: Length = 8359
    dynamic_system_prompt_len: Distribution | None = None
    turns_per_conversation: Distribution | None = None
    input_tokens_per_turn: Distribution | None = None
    output_tokens_per_turn: Distribution | None = None
    tool_call_latency_sec: Distribution | None = None
    max_model_len: Length | None = None


def recognises(head: Head) -> bool:
    """Tell by the key under `data`."""
    return NAME in yaml_keys(head, "data")


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Draw the conversations, one after another."""
    spec = spec_document(reading, Conversations, *_PATH)
    count = reading.options.sessions or spec.num_conversations
    reading.note(f"{count:,} conversations are drawn with seed {reading.options.seed}; answers come back in prompts")
    note_stages(reading)
    most_tokens = (spec.max_model_len or _DEFAULT_MOST_TOKENS) - _MARGIN_TOKENS
    reading.note(f"beyond {most_tokens:,} tokens the oldest turns are dropped, and system prompts cut")
    if most_tokens - spec.shared_system_prompt_len < _MARGIN_TOKENS:
        raise reading.error(
            f"{'.'.join(_PATH)}: shared_system_prompt_len {spec.shared_system_prompt_len:,} leaves no room in a "
            f"max_model_len of {most_tokens + _MARGIN_TOKENS:,}"
        )
    yield from numbered(_conversations(reading, spec, count, min(most_tokens, MOST_TOKENS)))


def _conversations(reading: Reading, spec: Conversations, count: int, most_tokens: int) -> Iterator[TraceRequest]:
    turns = _distribution(reading, spec, "turns_per_conversation", 10)
    own = _distribution(reading, spec, "dynamic_system_prompt_len", 0)
    new = _distribution(reading, spec, "input_tokens_per_turn", 512)
    output = _distribution(reading, spec, "output_tokens_per_turn", 256)
    pause = _distribution(reading, spec, "tool_call_latency_sec", 0)
    rng = np.random.default_rng(reading.options.seed)
    shared = (Span("shared", 0, spec.shared_system_prompt_len),)
    for number in range(count):
        drawn = (
            DrawnTurn(max(new.whole(rng), 1), max(output.whole(rng), 1), float(pause.whole(rng)))
            for _ in range(max(turns.whole(rng), 1))
        )
        yield from session_requests(f"conversation {number}", shared, own.whole(rng), drawn, most_tokens=most_tokens)


def _distribution(reading: Reading, spec: Conversations, key: str, otherwise: float) -> Bounded:
    found: Distribution | None = getattr(spec, key)
    return constant(otherwise) if found is None else found.bounded(f"{reading.path}: {'.'.join(_PATH)}.{key}")


FORMAT = Format(
    "conversation-replay", "inference-perf conversation_replay", recognises, read, Clock.SESSION, drawn=True
)
