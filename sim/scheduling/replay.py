"""Step a recorded scheduler scenario through our scheduler, and say what it decided in the recording's fields.

The scenarios drive the scheduler without a clock: arrivals are step numbers, and a model that emits a fixed
token. Format and fields: the README beside the recordings (vLLM 0.32.0).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sim.errors import RecordingError, one_of
from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.continuous import Batch, ContinuousScheduler, SchedulerConfig
from sim.scheduling.request import Request
from workloads.span import Span, joined, total_tokens

POLICY_VERSION = "0.32.0"
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

    def scheduler_config(self) -> SchedulerConfig:
        """Return the scheduler's part of the settings."""
        names = SchedulerConfig.__dataclass_fields__
        return SchedulerConfig(**{name: getattr(self, name) for name in names})


@dataclass(slots=True)
class _Progress:
    """What the summary says of a request."""

    arrival_step: int
    prompt_len: int
    first_hit: int | None = None
    first_sched_step: int | None = None
    first_token_step: int | None = None
    finish_step: int | None = None
    preemptions: int = 0
    output_len: int = 0
    scheduled_tokens: int = 0


def decode_scenario(text: bytes, place: str) -> RecordedScenario:
    """Parse and check a recorded scenario; `place` names it in errors.

    Raises RecordingError with the key and the rule it breaks.
    """
    try:
        scenario = msgspec.json.decode(text, type=RecordedScenario)
    except msgspec.DecodeError as error:
        raise RecordingError(f"{place}: {error}") from None
    _check(scenario, place)
    return scenario


def _check(scenario: RecordedScenario, place: str) -> None:
    for key in ("block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len"):
        if getattr(scenario, key) < 1:
            raise RecordingError(f"{place}: {key} {getattr(scenario, key)} must be at least 1")
    if scenario.num_gpu_blocks < 2:
        raise RecordingError(
            f"{place}: num_gpu_blocks {scenario.num_gpu_blocks} must be at least 2, block 0 is reserved"
        )
    if scenario.policy not in ("fcfs", "priority"):
        raise RecordingError(f"{place}: policy {one_of(scenario.policy, ('fcfs', 'priority'))}")
    if scenario.arrival_time_mode not in ("unique", "step"):
        raise RecordingError(f"{place}: arrival_time_mode {one_of(scenario.arrival_time_mode, ('unique', 'step'))}")
    seen: set[str] = set()
    ids = {request.id for request in scenario.requests}
    for request in scenario.requests:
        where = f"{place}: request {request.id!r}"
        if request.id in seen:
            raise RecordingError(f"{where} appears twice")
        if (request.arrival_step is None) == (request.after is None):
            raise RecordingError(f"{where} needs one of arrival_step and after")
        if request.after is not None and request.after not in ids:
            raise RecordingError(f"{where}: after {one_of(request.after, ids)}")
        if request.output_len < 1:
            raise RecordingError(f"{where}: output_len {request.output_len} must be at least 1")
        seen.add(request.id)


class _Prompts:
    """Turns recorded prompts into spans on one line of content, where a token's id is its point."""

    def __init__(self, scenario: RecordedScenario, place: str) -> None:
        self._requests = {request.id: request for request in scenario.requests}
        self._index = {request.id: index for index, request in enumerate(scenario.requests)}
        self._max_model_len = scenario.max_model_len
        self._place = place
        self._known: dict[str, tuple[Span, ...]] = {}

    def prompt(self, name: str, open_names: tuple[str, ...] = ()) -> tuple[Span, ...]:
        """Return the spans of a request's prompt."""
        if name in self._known:
            return self._known[name]
        if name not in self._requests:
            raise RecordingError(f"{self._place}: prompt of {open_names[-1]!r}: {one_of(name, self._requests)}")
        if name in open_names:
            raise RecordingError(f"{self._place}: the prompt of {name!r} contains itself")
        spans: list[Span] = []
        for part in self._requests[name].prompt:
            spans.extend(self._part(name, part, (*open_names, name)))
        self._known[name] = joined(spans)
        return self._known[name]

    def outputs(self, name: str) -> int:
        """Return how many tokens a request generates: its own limit, or what max_model_len leaves."""
        room = self._max_model_len - total_tokens(self.prompt(name))
        return min(self._requests[name].output_len, room)

    def conversation(self, name: str, open_names: tuple[str, ...] = ()) -> tuple[Span, ...]:
        """Return prompt and output."""
        prompt = self.prompt(name, open_names)
        token = self._requests[name].output_token
        value = _FIRST_OUTPUT + self._index[name] if token is None else token
        return joined([*prompt, *(Span("token", value, 1) for _ in range(self.outputs(name)))])

    def _part(self, name: str, part: list[Any], open_names: tuple[str, ...]) -> list[Span]:
        match part:
            case ["seg", int(seed), int(length)]:
                return [Span("token", seed * _SEGMENT, length)]
            case ["seg", int(seed), int(length), int(start)]:
                return [Span("token", seed * _SEGMENT + start, length)]
            case ["tok", list(tokens)] if all(isinstance(token, int) for token in tokens):
                return [Span("token", token, 1) for token in tokens]
            case ["conv", str(other)]:
                return list(self.conversation(other, open_names))
            case ["prompt", str(other)]:
                return list(self.prompt(other, open_names))
        raise RecordingError(
            f"{self._place}: request {name!r}: prompt part {part!r} is not "
            '["seg", seed, n(, start)], ["tok", [..]], ["conv", id] or ["prompt", id]'
        )


@dataclass(slots=True)
class _Replay:
    scenario: RecordedScenario
    prompts: _Prompts
    tree: ContentTree
    scheduler: ContinuousScheduler
    due: dict[int, list[int]] = field(default_factory=dict)  # step -> indices into the scenario's list
    followers: dict[str, list[int]] = field(default_factory=dict)
    progress: dict[str, _Progress] = field(default_factory=dict)
    added: int = 0

    def arrivals(self, step: int) -> list[str]:
        """Add the requests due at `step` in the order of the scenario's list."""
        names = []
        for index in sorted(self.due.pop(step, [])):
            recorded = self.scenario.requests[index]
            conversation = self.prompts.conversation(recorded.id)
            prompt_tokens = total_tokens(self.prompts.prompt(recorded.id))
            self.scheduler.add(
                Request(
                    recorded.id,
                    self.added,
                    prompt_tokens,
                    self.prompts.outputs(recorded.id),
                    self.tree.nodes(conversation),
                    self.scenario.block_size,
                    priority=recorded.priority,
                    arrival=float(self.added if self.scenario.arrival_time_mode == "unique" else step),
                )
            )
            self.added += 1
            self.progress[recorded.id] = _Progress(step, prompt_tokens)
            names.append(recorded.id)
        return names

    def finish(self, step: int, finished: list[Request]) -> None:
        """Note who finished, and when those that follow are due."""
        for request in finished:
            self.progress[request.id].finish_step = step
            for index in self.followers.pop(request.id, []):
                due = step + 1 + self.scenario.requests[index].delay_steps
                self.due.setdefault(due, []).append(index)


def replay(scenario: RecordedScenario, place: str = "scenario") -> Iterator[dict[str, Any]]:
    """Yield the header, one record a step, and the summary, in the recording's fields and key order.

    Raises RecordingError where a prompt refers to what does not exist.
    """
    config = scenario.scheduler_config()
    pool = BlockPool(scenario.num_gpu_blocks, enable_prefix_caching=scenario.enable_prefix_caching)
    run = _Replay(
        scenario,
        _Prompts(scenario, place),
        ContentTree(scenario.block_size),
        ContinuousScheduler(config, pool),
    )
    for index, request in enumerate(scenario.requests):
        tokens = total_tokens(run.prompts.prompt(request.id))
        if not 0 < tokens < scenario.max_model_len:
            rule = f"must lie between 1 and max_model_len - 1 = {scenario.max_model_len - 1}"
            raise RecordingError(f"{place}: request {request.id!r}: prompt of {tokens} tokens {rule}")
        if request.after is None:
            run.due.setdefault(request.arrival_step or 0, []).append(index)
        else:
            run.followers.setdefault(request.after, []).append(index)
    scheduler_name = "AsyncScheduler" if scenario.async_scheduling else "Scheduler"
    yield {"header": {"vllm_version": POLICY_VERSION, "scheduler": scheduler_name, "name": scenario.name}}

    step = steps = last_step = 0
    stuck = False
    in_flight: deque[Batch] = deque()
    while True:
        if not run.scheduler.has_requests and not in_flight:
            if not run.due:
                break
            step = max(step, min(run.due))
        arrived = run.arrivals(step)
        held = {request.id: request.num_blocks for request in run.scheduler.running}
        batch = run.scheduler.schedule()
        in_flight.append(batch)
        record = _decisions(step, arrived, batch, run.scheduler)
        if scenario.record_block_ids:
            record["blocks"] = _new_blocks(batch, held)
        delayed = scenario.async_scheduling and len(in_flight) < 2
        returned = Batch() if delayed else in_flight.popleft()
        finished = run.scheduler.process(returned)
        run.finish(step, finished)
        _note(run.progress, step, batch, returned)
        if finished:
            record["finished"] = [request.id for request in finished]
        yield record | _state(run.scheduler)
        steps, last_step = steps + 1, step
        if not run.scheduler.has_requests and not any(b.scheduled for b in in_flight):
            in_flight.clear()
        if not (batch.scheduled or batch.preempted or returned.scheduled or run.due):
            stuck = True
            break
        step += 1
    yield {"summary": _summary(run, steps, last_step, stuck=stuck)}


def _decisions(step: int, arrived: list[str], batch: Batch, scheduler: ContinuousScheduler) -> dict[str, Any]:
    record: dict[str, Any] = {"step": step}
    if arrived:
        record["arrived"] = arrived
    record["scheduled"] = {entry.request.id: entry.tokens for entry in batch.scheduled}
    if batch.admitted:
        record["hit"] = {entry.request.id: entry.hit_tokens for entry in batch.admitted}
    resumed = [entry.request.id for entry in batch.admitted if entry.resumed]
    if resumed:
        record["resumed"] = resumed
    if batch.preempted:
        record["preempted"] = [request.id for request in batch.preempted]
    if batch.evicted_blocks:
        record["evicted"] = batch.evicted_blocks
    record["sched"] = [len(scheduler.running), len(scheduler.waiting), scheduler.pool.num_free]
    return record


def _new_blocks(batch: Batch, held: dict[str, int]) -> dict[str, list[int]]:
    admitted = {entry.request.id for entry in batch.admitted}
    blocks = {}
    for entry in batch.scheduled:
        name = entry.request.id
        first = 0 if name in admitted else held[name]
        new = entry.request.blocks[first:].tolist()
        if new:
            blocks[name] = new
    return blocks


def _state(scheduler: ContinuousScheduler) -> dict[str, Any]:
    return {
        "running": len(scheduler.running),
        "waiting": len(scheduler.waiting),
        "free_blocks": scheduler.pool.num_free,
        "kv_usage": round(scheduler.pool.usage, 6),
        "cached_blocks": scheduler.pool.num_cached,
    }


def _note(progress: dict[str, _Progress], step: int, batch: Batch, returned: Batch) -> None:
    for admission in batch.admitted:
        of = progress[admission.request.id]
        if of.first_hit is None:
            of.first_hit = admission.hit_tokens
    for entry in batch.scheduled:
        of = progress[entry.request.id]
        of.scheduled_tokens += entry.tokens
        if of.first_sched_step is None:
            of.first_sched_step = step
    for request in batch.preempted:
        progress[request.id].preemptions += 1
    for entry in returned.scheduled:
        of = progress[entry.request.id]
        of.output_len = entry.request.generated_tokens
        if entry.samples and of.first_token_step is None:
            of.first_token_step = step


def _summary(run: _Replay, steps: int, last_step: int, *, stuck: bool) -> dict[str, Any]:
    requests = {}
    for name, of in run.progress.items():
        requests[name] = {key: getattr(of, key) for key in _Progress.__dataclass_fields__}
    values = list(run.progress.values())
    return {
        "steps": steps,
        "last_step": last_step,
        "stuck": stuck,
        "usable_blocks": run.scheduler.pool.usable_blocks,
        "total_prompt_tokens": sum(of.prompt_len for of in values),
        "total_first_hit_tokens": sum(of.first_hit or 0 for of in values),
        "total_scheduled_tokens": sum(of.scheduled_tokens for of in values),
        "total_preemptions": sum(of.preemptions for of in values),
        "requests": requests,
    }
