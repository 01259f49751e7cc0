"""inference-perf's `shared_prefix` configurations: groups of prompts behind one system prompt each, or chats of them.

Without `enable_multi_turn_chat` every prompt is a session of one request. With it, each prompt's user sends it again
and again in one chat; the number of rounds is the load's, so it is taken from the stages' requests.
"""

from collections.abc import Iterator

import numpy as np

from workloads.span import Span
from workloads.traces.drawn_session import DrawnTurn, numbered, session_requests
from workloads.traces.format import Clock, Format, Head
from workloads.traces.inference_perf_spec import Distribution, Length, length, note_stages, stages
from workloads.traces.json_rows import Row
from workloads.traces.reading import Reading
from workloads.traces.request import TraceRequest
from workloads.traces.spec_document import spec_document, yaml_keys

NAME = "shared_prefix"
_PATH = ("data", NAME)
_MOST = 10**12  # groups, and prompts of a group
_DEFAULT_ROUNDS = 10


class SharedPrefix(Row, frozen=True, gc=False):
    """The configuration, with inference-perf's defaults and both of its names for the counts."""

    num_unique_system_prompts: int | None = None
    num_groups: int | None = None
    num_users_per_system_prompt: int | None = None
    num_prompts_per_group: int | None = None
    system_prompt_len: Length | Distribution = 100
    question_len: Length | Distribution = 50
    output_len: Length | Distribution = 50
    question_distribution: Distribution | None = None
    output_distribution: Distribution | None = None
    enable_multi_turn_chat: bool = False


def recognises(head: Head) -> bool:
    """Tell by the key under `data`."""
    return NAME in yaml_keys(head, "data")


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Draw the prompts, in turns of one a group, so that no group comes all at once."""
    spec = spec_document(reading, SharedPrefix, *_PATH)
    groups = _count(reading, spec, "num_unique_system_prompts", "num_groups")
    prompts = _count(reading, spec, "num_users_per_system_prompt", "num_prompts_per_group")
    count = reading.options.sessions or groups * prompts
    reading.note(f"{count:,} sessions in {groups:,} groups are drawn with seed {reading.options.seed}")
    note_stages(reading)
    rounds = 1
    if spec.enable_multi_turn_chat:
        asked = [_requests(one.num_requests, one.rate, one.duration) for one in stages(reading.path)]
        rounds = max(max(asked, default=0) // max(groups * prompts, 1), 1) if any(asked) else _DEFAULT_ROUNDS
        reading.note(f"chats have {rounds:,} rounds, from the requests of the longest stage, and grow by each")
    yield from numbered(_sessions(reading, spec, groups, count, rounds))


def _sessions(reading: Reading, spec: SharedPrefix, groups: int, count: int, rounds: int) -> Iterator[TraceRequest]:
    where = f"{reading.path}: {'.'.join(_PATH)}"
    system = length(spec.system_prompt_len, f"{where}.system_prompt_len")
    question = length(spec.question_distribution or spec.question_len, f"{where}.question_len")
    output = length(spec.output_distribution or spec.output_len, f"{where}.output_len")
    seed = reading.options.seed
    rng = np.random.default_rng(seed)
    for number in range(count):
        group = number % groups
        system_tokens = system.whole(np.random.default_rng((seed, group)))  # the same each time the group comes up
        shared = (Span(("group", group), 0, system_tokens),)
        new_tokens, output_tokens = max(question.whole(rng), 1), max(output.whole(rng), 1)
        turns = (DrawnTurn(new_tokens, output_tokens, 0.0) for _ in range(rounds))
        yield from session_requests(f"group {group} prompt {number // groups}", shared, 0, turns)


def _requests(num_requests: int | None, rate: float | None, duration_s: float | None) -> int:
    return num_requests or int((rate or 0.0) * (duration_s or 0.0))


def _count(reading: Reading, spec: SharedPrefix, *keys: str) -> int:
    for key in keys:
        value: int | None = getattr(spec, key)
        if value is not None:
            if not 1 <= value <= _MOST:
                raise reading.error(f"{'.'.join(_PATH)}.{key} {value:,} must be from 1 to {_MOST:,}")
            return value
    return 10


FORMAT = Format("shared-prefix", "inference-perf shared_prefix", recognises, read, Clock.SESSION, drawn=True)
