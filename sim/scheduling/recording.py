"""A recorded scheduler scenario: its format, its checks, and its prompts as spans.

Format and fields: the README beside the recordings (vLLM 0.32.0). `replay.py` steps what is read here.
"""

import itertools
import math
from collections.abc import Iterator
from reprlib import repr as short_repr
from typing import Any

import msgspec

from sim.errors import RecordingError, one_of
from sim.memory.kv_groups import Keeps, KvGroup
from sim.scheduling.continuous import SchedulerConfig
from workloads.span import Span, joined, total_tokens

MOST_TOKENS = 100_000_000  # of one request
MOST_BLOCKS = 100_000_000  # 1.6 billion tokens: more is a slip of the pen
_SEGMENT = 1_000_000  # token i of segment s has the id s * 1,000,000 + i
_FIRST_OUTPUT = 2_000_000_000  # the request at list index k answers with this token + k


class RecordedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One request of a recorded scenario; arrives at a step, or some steps after another one finished."""

    id: str
    prompt: list[list[Any]]
    output_len: int
    arrival_step: int | None = None
    after: str | None = None
    delay_steps: int = 0
    priority: int = 0
    output_token: int | None = None


class RecordedGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One group of layers of a recorded scenario: what it keeps of a sequence, as in `KvGroup`."""

    keeps: str
    block_size: int
    span_tokens: int = 0
    state_blocks: int = 0

    def group(self) -> KvGroup:
        """Return the group; how many layers are in it does not matter here."""
        return KvGroup(Keeps(self.keeps), 1, self.block_size, self.span_tokens, self.state_blocks)


class RecordedScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings and requests of a recorded scenario, with the recording's own defaults."""

    name: str
    num_gpu_blocks: int
    requests: list[RecordedRequest]
    description: str = ""
    block_size: int = 16
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    max_model_len: int = 8192
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    policy: str = "fcfs"
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    async_scheduling: bool = False
    arrival_time_mode: str = "unique"
    record_block_ids: bool = False
    kv_groups: list[RecordedGroup] = []
    prefix_cache_retention_interval: int | None = 0

    def scheduler_config(self) -> SchedulerConfig:
        """Return the scheduler's part of the settings."""
        names = SchedulerConfig.__dataclass_fields__
        return SchedulerConfig(**{name: getattr(self, name) for name in names if hasattr(self, name)})


def decode_scenario(text: bytes, place: str) -> RecordedScenario:
    """Parse and check a recorded scenario; `place` names it in errors.

    Raises RecordingError with the key and the rule it breaks.
    """
    try:
        scenario = msgspec.json.decode(text, type=RecordedScenario)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{place}: {error}") from None
    _check_settings(scenario, place)
    _check_requests(scenario, place)
    return scenario


def _check_settings(scenario: RecordedScenario, place: str) -> None:
    if not 2 <= scenario.num_gpu_blocks <= MOST_BLOCKS:
        raise RecordingError(
            f"{place}: num_gpu_blocks {scenario.num_gpu_blocks} must lie between 2 (block 0 is reserved) "
            f"and {MOST_BLOCKS:,}"
        )
    for key in ("block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len"):
        _at_least(place, key, getattr(scenario, key), 1)
    if scenario.max_model_len > MOST_TOKENS:
        raise RecordingError(f"{place}: max_model_len {scenario.max_model_len} must be at most {MOST_TOKENS:,}")
    _at_least(place, "long_prefill_token_threshold", scenario.long_prefill_token_threshold, 0)
    if not 0 <= scenario.watermark <= 1:
        raise RecordingError(f"{place}: watermark {scenario.watermark} must lie between 0 and 1")
    _check_groups(scenario, place)
    if scenario.policy not in ("fcfs", "priority"):
        raise RecordingError(f"{place}: policy {one_of(scenario.policy, ('fcfs', 'priority'))}")
    if scenario.arrival_time_mode not in ("unique", "step"):
        raise RecordingError(f"{place}: arrival_time_mode {one_of(scenario.arrival_time_mode, ('unique', 'step'))}")


def _check_groups(scenario: RecordedScenario, place: str) -> None:
    kinds = [keeps.value for keeps in Keeps]
    for number, group in enumerate(scenario.kv_groups):
        where = f"{place}: kv_groups[{number}]"
        if group.keeps not in kinds:
            raise RecordingError(f"{where}: keeps {one_of(group.keeps, kinds)}")
        _at_least(where, "block_size", group.block_size, 1)
        if group.keeps in {Keeps.WINDOW.value, Keeps.CHUNK.value}:
            _at_least(where, "span_tokens", group.span_tokens, 1)
        if group.keeps == Keeps.STATE.value:
            _at_least(where, "state_blocks", group.state_blocks, 1 + scenario.enable_prefix_caching)
    if scenario.kv_groups and scenario.record_block_ids:
        raise RecordingError(f"{place}: record_block_ids is for models without kv_groups")
    interval = scenario.prefix_cache_retention_interval
    hit_tokens = math.lcm(*(group.block_size for group in scenario.kv_groups))
    if interval is not None and (interval < 0 or interval % hit_tokens):
        raise RecordingError(
            f"{place}: prefix_cache_retention_interval {interval} must be a multiple of {hit_tokens}, 0 or null"
        )


def _check_requests(scenario: RecordedScenario, place: str) -> None:
    ids = {request.id for request in scenario.requests}
    seen: set[str] = set()
    followers: dict[str, list[str]] = {}
    starters: list[str] = []
    for request in scenario.requests:
        where = f"{place}: request {request.id!r}"
        if request.id in seen:
            raise RecordingError(f"{where} appears twice")
        seen.add(request.id)
        if (request.arrival_step is None) == (request.after is None):
            raise RecordingError(f"{where} needs one of arrival_step and after")
        if request.after is None:
            starters.append(request.id)
        elif request.after not in ids:
            raise RecordingError(f"{where}: after {one_of(request.after, ids)}")
        else:
            followers.setdefault(request.after, []).append(request.id)
        _at_least(where, "arrival_step", request.arrival_step or 0, 0)
        _at_least(where, "delay_steps", request.delay_steps, 0)
        _at_least(where, "output_len", request.output_len, 1)
    while starters:
        name = starters.pop()
        seen.discard(name)
        starters.extend(followers.get(name, ()))
    if seen:
        raise RecordingError(f"{place}: request {min(seen)!r}: its chain of after leads back to itself")


def _at_least(where: str, key: str, value: int, least: int) -> None:
    if value < least:
        raise RecordingError(f"{where}: {key} {value} must be at least {least}")


class RecordedPrompts:
    """Turns recorded prompts into spans on one line of content, where a token's id is its point.

    Raises RecordingError where a prompt is malformed, leaves no room to answer, or refers to what does not exist.
    """

    def __init__(self, scenario: RecordedScenario, place: str) -> None:
        self._requests = {request.id: request for request in scenario.requests}
        self._index = {request.id: index for index, request in enumerate(scenario.requests)}
        self._max_model_len = scenario.max_model_len
        self._place = place
        self._known: dict[str, tuple[Span, ...]] = {}
        self._conversations: dict[str, tuple[Span, ...]] = {}
        for name in self._requests:
            self._resolve(name)

    def prompt(self, name: str) -> tuple[Span, ...]:
        """Return the spans of a request's prompt."""
        return self._known[name]

    def outputs(self, name: str) -> int:
        """Return how many tokens a request generates: its own limit, or what max_model_len leaves."""
        room = self._max_model_len - total_tokens(self.prompt(name))
        return min(self._requests[name].output_len, room)

    def conversation(self, name: str) -> tuple[Span, ...]:
        """Return prompt and output."""
        if name not in self._conversations:
            token = self._requests[name].output_token
            value = _FIRST_OUTPUT + self._index[name] if token is None else token
            answer = itertools.repeat(Span("token", value, 1), self.outputs(name))
            self._conversations[name] = joined([*self.prompt(name), *answer])
        return self._conversations[name]

    def _resolve(self, name: str) -> None:
        """Resolve a prompt after those it quotes; a stack of its own, as conversations can be long chains."""
        under_way = {name: None}
        while under_way:
            current = next(reversed(under_way))
            missing = next((other for other in self._quoted(current) if other not in self._known), None)
            if missing is None:
                self._known[current] = self._checked(current)
                del under_way[current]
            elif missing in under_way:
                raise RecordingError(f"{self._where(missing)}: its prompt contains itself")
            else:
                under_way[missing] = None

    def _quoted(self, name: str) -> Iterator[str]:
        for part in self._requests[name].prompt:
            match part:
                case ["conv" | "prompt", str(other)]:
                    if other not in self._requests:
                        raise RecordingError(f"{self._where(name)}: prompt of {one_of(other, self._requests)}")
                    yield other

    def _checked(self, name: str) -> tuple[Span, ...]:
        spans = joined(span for part in self._requests[name].prompt for span in self._part(name, part))
        tokens = total_tokens(spans)
        if not 0 < tokens < self._max_model_len:
            rule = f"must lie between 1 and max_model_len - 1 = {self._max_model_len - 1}"
            raise RecordingError(f"{self._where(name)}: prompt of {tokens} tokens {rule}")
        return spans

    def _part(self, name: str, part: list[Any]) -> tuple[Span, ...]:
        match part:
            case ["seg", int(seed), int(length)] if length >= 0:
                return (Span("token", seed * _SEGMENT, length),)
            case ["seg", int(seed), int(length), int(start)] if length >= 0:
                return (Span("token", seed * _SEGMENT + start, length),)
            case ["tok", list(tokens)] if all(isinstance(token, int) for token in tokens):
                return tuple(Span("token", token, 1) for token in tokens)
            case ["conv", str(other)]:
                return self.conversation(other)
            case ["prompt", str(other)]:
                return self.prompt(other)
        raise RecordingError(
            f"{self._where(name)}: prompt part {short_repr(part)} is not "
            '["seg", seed, n(, start)], ["tok", [..]], ["conv", id] or ["prompt", id]'
        )

    def _where(self, name: str) -> str:
        return f"{self._place}: request {name!r}"
