"""vLLM's `generate_multi_turn.json`: conversations for its multi-turn benchmark, described by distributions.

`num_turns` counts messages of both roles, at least two and rounded up to an even number, so a conversation has half as
many requests. `num_tokens` of the first prompt includes what all share (`common_prefix_num_tokens`); the conversation's
own `prefix_num_tokens` come on top. Rules as in benchmarks/multi_turn/bench_dataset.py.
"""

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import msgspec
import numpy as np

from workloads.span import Span
from workloads.traces.bounded import check_kind
from workloads.traces.drawn_session import DrawnTurn, numbered, session_requests
from workloads.traces.format import Clock, Format, Head
from workloads.traces.inference_perf_spec import Count
from workloads.traces.json_rows import Row, json_document
from workloads.traces.reading import Reading
from workloads.traces.request import MOST_TOKENS, TraceRequest
from workloads.traces.spec_document import MOST_SPEC_BYTES

_Number = Annotated[float, msgspec.Meta(ge=0, le=MOST_TOKENS)]
_LEAST_PROMPT_TOKENS = 11  # of the sentence in front of each prompt, in most tokenizers
_MEDIAN_RATIO = 0.85
_NEEDS = {
    "constant": ("value",),
    "uniform": ("min", "max"),
    "zipf": ("alpha",),
    "poisson": ("alpha",),
    "lognormal": ("mean", "sigma"),
}
Draw = Callable[[np.random.Generator], int]


class _Distribution(Row, frozen=True, gc=False):
    distribution: str
    value: _Number | None = None
    min: _Number | None = None
    max: _Number | None = None
    alpha: _Number | None = None
    average: _Number | None = None
    median_ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    mean: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None  # of the logarithm
    sigma: Annotated[float, msgspec.Meta(ge=0, le=10)] | None = None


class _Input(Row, frozen=True, gc=False):
    num_turns: _Distribution
    num_tokens: _Distribution
    prefix_num_tokens: _Distribution
    common_prefix_num_tokens: _Distribution | None = None


class _Output(Row, frozen=True, gc=False):
    num_tokens: _Distribution


class _Spec(Row, frozen=True, gc=False):
    filetype: Literal["generate_conversations"]
    num_conversations: Count
    prompt_input: _Input
    prompt_output: _Output


def recognises(head: Head) -> bool:
    """Tell by the keys."""
    return head.keys >= {"prompt_input", "prompt_output"}


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Draw the conversations, one after another."""
    spec = json_document(reading, _Spec, MOST_SPEC_BYTES)
    count = reading.options.sessions or spec.num_conversations
    reading.note(f"{count:,} conversations are drawn with seed {reading.options.seed}; answers come back in prompts")
    reading.note("num_turns counts messages of both roles; num_tokens of the first includes the common prefix")
    yield from numbered(_conversations(reading, spec, count))


def _conversations(reading: Reading, spec: _Spec, count: int) -> Iterator[TraceRequest]:
    turns = _draw(reading, "prompt_input.num_turns", spec.prompt_input.num_turns)
    new = _draw(reading, "prompt_input.num_tokens", spec.prompt_input.num_tokens)
    prefix = _draw(reading, "prompt_input.prefix_num_tokens", spec.prompt_input.prefix_num_tokens)
    output = _draw(reading, "prompt_output.num_tokens", spec.prompt_output.num_tokens)
    rng = np.random.default_rng(reading.options.seed)
    common_tokens = 0
    if spec.prompt_input.common_prefix_num_tokens:
        common = _draw(reading, "prompt_input.common_prefix_num_tokens", spec.prompt_input.common_prefix_num_tokens)
        common_tokens = common(rng)  # once for all
    shared = (Span("shared", 0, common_tokens),)
    for number in range(count):
        drawn = _turns(rng, (max(turns(rng), 2) + 1) // 2, new, output, common_tokens)
        yield from session_requests(f"conversation {number}", shared, prefix(rng), drawn)


def _turns(rng: np.random.Generator, count: int, new: Draw, output: Draw, common_tokens: int) -> Iterator[DrawnTurn]:
    for turn in range(count):
        new_tokens = max(new(rng), _LEAST_PROMPT_TOKENS)
        if turn == 0:
            new_tokens = max(new_tokens - common_tokens, _LEAST_PROMPT_TOKENS)
        yield DrawnTurn(new_tokens, max(output(rng), 1), 0.0)


def _draw(reading: Reading, key: str, one: _Distribution) -> Draw:
    """Return a function that draws a count; raises WorkloadError for what the kind needs and has not."""
    kind = check_kind(f"{reading.path}: {key}", one.distribution, _NEEDS)
    needs = () if kind == "lognormal" and one.average is not None else _NEEDS[kind]
    for name in needs:
        if getattr(one, name) is None:
            raise reading.error(f"{key}: key missing: {name}, which {kind} needs")
    value, low, high, alpha = (number or 0.0 for number in (one.value, one.min, one.max, one.alpha))
    most = one.max or MOST_TOKENS
    if kind == "uniform" and not 0 < low <= high:
        raise reading.error(f"{key}: min {low:g} must be above 0 and at most max {high:g}")
    if kind == "zipf" and alpha <= 1:
        raise reading.error(f"{key}: alpha {alpha:g} of zipf must be above 1")
    if one.average is not None and one.average < 1:
        raise reading.error(f"{key}: average {one.average:g} of lognormal must be at least 1")
    mean, sigma = _logarithm(one)
    kinds: dict[str, Draw] = {
        "constant": lambda _rng: round(value),
        "uniform": lambda rng: int(rng.integers(int(low), int(high) + 1)),
        "zipf": lambda rng: int(min(rng.zipf(alpha), most)),
        "poisson": lambda rng: int(min(rng.poisson(alpha), most)),
        "lognormal": lambda rng: round(min(float(rng.lognormal(mean, sigma)), most)),
    }
    return kinds[kind]


def _logarithm(one: _Distribution) -> tuple[float, float]:
    """Return mean and deviation of a lognormal's logarithm, given or from its average and how far below the median is.

    vLLM scales each sample of many to the average; here the average is the distribution's.
    """
    if one.average is None:
        return one.mean or 0.0, one.sigma or 0.0
    ratio = one.median_ratio or _MEDIAN_RATIO
    return math.log(max(one.average, 1.0) * ratio), math.sqrt(-2 * math.log(ratio))


FORMAT = Format("vllm-multi-turn", "vLLM multi-turn JSON", recognises, read, Clock.SESSION, drawn=True)
