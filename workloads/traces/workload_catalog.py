"""inference-perf's workload catalog, `config.json`: a use case's statistics, from which sessions are drawn.

The catalog's own inference-perf files tell how its fields are meant: `system_prompt` is shared, `input_sequence_length`
is what each session brings at its start, `input_sequence_length_per_turn` is new in each turn, and
`time_between_turns` passes between an answer and the next prompt. Entries that report a corpus are refused.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import numpy as np

from workloads.span import Span
from workloads.traces.bounded import Bounded, checked, constant
from workloads.traces.drawn_session import DrawnTurn, numbered, session_requests
from workloads.traces.format import Clock, Format, Head
from workloads.traces.json_rows import Row, json_document
from workloads.traces.reading import Reading
from workloads.traces.request import MOST_TOKENS, TraceRequest
from workloads.traces.spec_document import MOST_SPEC_BYTES

_Value = Annotated[float, msgspec.Meta(ge=0, le=MOST_TOKENS)]
_Spread = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_DEFAULT_SESSIONS = 100


class _Statistics(Row, frozen=True, gc=False):
    mean: _Value
    min: _Value = 0
    max: _Value = MOST_TOKENS
    standard_deviation: _Spread = 0
    distribution_type: str = "normal"


class _Config(Row, frozen=True, gc=False):
    input_sequence_length: _Statistics
    output_sequence_length: _Statistics
    number_of_turns: _Statistics | None = None
    time_between_turns: _Statistics | None = None
    system_prompt: _Statistics | None = None
    input_sequence_length_per_turn: _Statistics | None = None
    shared_prefix_tokens_per_call: _Statistics | None = None
    multi_turn: bool = True


def recognises(head: Head) -> bool:
    """Tell by the keys."""
    return head.keys >= {"input_sequence_length", "output_sequence_length"}


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Draw sessions, one after another."""
    config = json_document(reading, _Config, MOST_SPEC_BYTES)
    if config.shared_prefix_tokens_per_call is not None:
        raise reading.error("these are statistics of a recorded corpus, with no distributions to draw from")
    count = reading.options.sessions or _DEFAULT_SESSIONS
    given = "" if reading.options.sessions else ", as the file does not say how many"
    reading.note(f"{count:,} sessions are drawn with seed {reading.options.seed}{given}")
    yield from numbered(_sessions(reading, config, count))


def _sessions(reading: Reading, config: _Config, count: int) -> Iterator[TraceRequest]:
    first = _distribution(reading, "input_sequence_length", config.input_sequence_length)
    output = _distribution(reading, "output_sequence_length", config.output_sequence_length)
    turns = _distribution(reading, "number_of_turns", config.number_of_turns if config.multi_turn else None, 1)
    pause = _distribution(reading, "time_between_turns", config.time_between_turns)
    system = _distribution(reading, "system_prompt", config.system_prompt)
    growth = config.input_sequence_length_per_turn
    grows = config.multi_turn and growth is not None and growth.max > 0
    new = _distribution(reading, "input_sequence_length_per_turn", growth if grows else None)
    if grows:
        reading.note("input_sequence_length is each session's own start; turns add input_sequence_length_per_turn")
        reading.note("the file gives no context limit: prompts grow as long as the turns do")
    else:
        reading.note("every prompt is the system prompt and input_sequence_length new tokens")
    rng = np.random.default_rng(reading.options.seed)
    shared = (Span("shared", 0, system.whole(rng)),)
    if config.system_prompt is not None and config.system_prompt.min < config.system_prompt.max:
        reading.note(f"the system prompt is shared by all sessions, and has {shared[0].length:,} tokens")
    for number in range(count):
        own_tokens = first.whole(rng) if grows else 0
        new_tokens = new if grows else first
        drawn = (
            DrawnTurn(max(new_tokens.whole(rng), 1), max(output.whole(rng), 1), pause.draw(rng))
            for _ in range(max(turns.whole(rng), 1))
        )
        yield from session_requests(f"session {number}", shared, own_tokens, drawn)


def _distribution(reading: Reading, key: str, one: _Statistics | None, otherwise: float = 0) -> Bounded:
    if one is None:
        return constant(otherwise)
    if one.distribution_type == "bimodal":
        reading.note("bimodal: a share at min, the rest at one higher mode, by mean and standard deviation")
    if one.distribution_type == "exponential":
        reading.note("exponential: decays from min on, by the mean; the standard deviation follows")
    where = f"{reading.path}: {key}"
    return checked(where, Bounded(one.distribution_type, one.min, one.max, one.mean, one.standard_deviation))


FORMAT = Format("workload-catalog", "workload catalog JSON", recognises, read, Clock.SESSION, drawn=True)
