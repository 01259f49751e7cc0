"""Step a recorded scheduler scenario through our scheduler, and say what it decided in the recording's fields.

The scenarios drive the scheduler without a clock: arrivals are step numbers, and a model that emits a fixed
token. Format: `recording.py`, and the README beside the recordings (vLLM 0.32.0).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.batch import Batch
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.hybrid import hybrid_scheduler
from sim.scheduling.recording import RecordedPrompts, RecordedScenario, decode_scenario
from sim.scheduling.request import Request
from workloads.span import total_tokens

__all__ = ["POLICY_VERSION", "RecordedScenario", "decode_scenario", "replay"]

POLICY_VERSION = "0.32.0"


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


class _Flight(NamedTuple):
    """A batch with everybody who has a share of it, in order."""

    batch: Batch
    tokens: dict[Request, int]
    sampled: list[Request]


@dataclass(slots=True)
class _Replay:
    scenario: RecordedScenario
    prompts: RecordedPrompts
    tree: ContentTree
    scheduler: ContinuousScheduler
    due: dict[int, list[int]] = field(default_factory=dict)  # step -> indices into the scenario's list
    followers: dict[str, list[int]] = field(default_factory=dict)
    progress: dict[str, _Progress] = field(default_factory=dict)
    in_flight: deque["_Flight"] = field(default_factory=deque)
    fruitless_steps: int = 0  # since a token came back

    def arrivals(self, step: int) -> list[str]:
        """Add the requests due at `step` in the order of the scenario's list."""
        names = []
        for index in sorted(self.due.pop(step, [])):
            recorded = self.scenario.requests[index]
            prompt_tokens = total_tokens(self.prompts.prompt(recorded.id))
            number = len(self.progress)
            self.scheduler.add(
                Request(
                    recorded.id,
                    number,
                    prompt_tokens,
                    self.prompts.outputs(recorded.id),
                    self.tree.content(self.prompts.conversation(recorded.id)),
                    priority=recorded.priority,
                    arrival=float(number if self.scenario.arrival_time_mode == "unique" else step),
                )
            )
            self.progress[recorded.id] = _Progress(step, prompt_tokens)
            names.append(recorded.id)
        return names

    def schedule(self) -> _Flight:
        """Decide the next batch, and spell out the decode group's part of it."""
        batch = self.scheduler.schedule()
        group = list(self.scheduler.group.members.values())
        tokens = dict.fromkeys(group, 1) | {entry.request: entry.tokens for entry in batch.scheduled}
        return _Flight(batch, tokens, group + [entry.request for entry in batch.scheduled if entry.samples])

    def returned(self, flight: _Flight) -> _Flight:
        """Send a batch off and return the one that comes back: itself, or with two in flight the one before."""
        self.in_flight.append(flight)
        delayed = self.scenario.async_scheduling and len(self.in_flight) < 2
        return _Flight(Batch(), {}, []) if delayed else self.in_flight.popleft()

    def finish(self, step: int, finished: list[Request]) -> None:
        """Note who finished, and when those that follow are due."""
        for request in finished:
            self.progress[request.id].finish_step = step
            for index in self.followers.pop(request.id, []):
                due = step + 1 + self.scenario.requests[index].delay_steps
                self.due.setdefault(due, []).append(index)

    def is_stuck(self, flight: _Flight, returned: _Flight) -> bool:
        """Whether nothing will ever finish again: no work and nobody coming, or work that leads nowhere.

        The second is a request that outgrows the pool and preempts itself for ever, or, under `priority`, some
        of one rank that preempt each other in turns (vLLM does both). Where there is progress, a token comes
        back before everything known could have been computed twice.
        """
        if returned.sampled:
            self.fruitless_steps = 0
            return False
        self.fruitless_steps += 1
        present = [*self.scheduler.running, *self.scheduler.waiting]
        if self.due or not present:
            return False
        if not (flight.tokens or flight.batch.preempted or returned.tokens):
            return True
        return self.fruitless_steps > 2 * sum(request.known_tokens + 1 for request in present)


def replay(scenario: RecordedScenario, place: str = "scenario") -> Iterator[dict[str, Any]]:
    """Yield the header, one record a step, and the summary, in the recording's fields and key order.

    Raises RecordingError where a prompt refers to what does not exist.
    """
    run = _start(scenario, place)
    scheduler_name = "AsyncScheduler" if scenario.async_scheduling else "Scheduler"
    yield {"header": {"vllm_version": POLICY_VERSION, "scheduler": scheduler_name, "name": scenario.name}}
    step = steps = last_step = 0
    stuck = False
    while not stuck:
        if not run.scheduler.has_requests:
            run.in_flight.clear()
            if not run.due:
                break
            step = max(step, min(run.due))
        arrived = run.arrivals(step)
        held = {request.id: request.table.blocks for request in run.scheduler.running}
        flight = run.schedule()
        record = _decisions(step, arrived, flight, run.scheduler)
        if scenario.record_block_ids:
            record["blocks"] = _new_blocks(flight, held)
        returned = run.returned(flight)
        finished = run.scheduler.process(returned.batch)
        run.scheduler.settle_all()
        run.finish(step, finished)
        _note(run.progress, step, flight, returned)
        if finished:
            record["finished"] = [request.id for request in finished]
        yield record | _state(run.scheduler)
        stuck = run.is_stuck(flight, returned)
        steps, last_step, step = steps + 1, step, step + 1
    yield {"summary": _summary(run, steps, last_step, stuck=stuck)}


def _start(scenario: RecordedScenario, place: str) -> _Replay:
    scheduler = _scheduler(scenario)
    tree = ContentTree(scheduler.config.block_size)
    run = _Replay(scenario, RecordedPrompts(scenario, place), tree, scheduler)
    for index, request in enumerate(scenario.requests):
        if request.after is None:
            run.due.setdefault(request.arrival_step or 0, []).append(index)
        else:
            run.followers.setdefault(request.after, []).append(index)
    return run


def _scheduler(scenario: RecordedScenario) -> ContinuousScheduler:
    caching = scenario.enable_prefix_caching
    if scenario.kv_groups:
        return hybrid_scheduler(
            scenario.scheduler_config(),
            [group.group() for group in scenario.kv_groups],
            scenario.num_gpu_blocks,
            enable_prefix_caching=caching,
            prefix_cache_retention_interval=scenario.prefix_cache_retention_interval,
        )
    pool = BlockPool(scenario.num_gpu_blocks, enable_prefix_caching=caching, numbered=scenario.record_block_ids)
    return ContinuousScheduler(scenario.scheduler_config(), pool)


def _decisions(step: int, arrived: list[str], flight: _Flight, scheduler: ContinuousScheduler) -> dict[str, Any]:
    batch = flight.batch
    record: dict[str, Any] = {"step": step}
    if arrived:
        record["arrived"] = arrived
    record["scheduled"] = {request.id: tokens for request, tokens in flight.tokens.items()}
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


def _new_blocks(flight: _Flight, held: dict[str, int]) -> dict[str, list[int]]:
    admitted = {entry.request.id for entry in flight.batch.admitted}
    blocks = {}
    for request in flight.tokens:
        first = 0 if request.id in admitted else held[request.id]
        new = request.table.numbers[first:]
        if new:
            blocks[request.id] = new
    return blocks


def _state(scheduler: ContinuousScheduler) -> dict[str, Any]:
    return {
        "running": len(scheduler.running),
        "waiting": len(scheduler.waiting),
        "free_blocks": scheduler.pool.num_free,
        "kv_usage": round(scheduler.pool.usage, 6),
        "cached_blocks": scheduler.pool.num_cached,
    }


def _note(progress: dict[str, _Progress], step: int, flight: _Flight, returned: _Flight) -> None:
    for admission in flight.batch.admitted:
        of = progress[admission.request.id]
        if of.first_hit is None:
            of.first_hit = admission.hit_tokens
    for request, tokens in flight.tokens.items():
        of = progress[request.id]
        of.scheduled_tokens += tokens
        if of.first_sched_step is None:
            of.first_sched_step = step
    for request in flight.batch.preempted:
        progress[request.id].preemptions += 1
    for request in returned.tokens:
        progress[request.id].output_len = request.generated_tokens
    for request in returned.sampled:
        of = progress[request.id]
        if of.first_token_step is None:
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
