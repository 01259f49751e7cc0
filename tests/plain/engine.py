"""The reference of `sim.engine.engine`: the plain loop, an event a step, every token's time noted when it comes.

synchronous     schedule 1 | run 1 | process 1, schedule 2 | run 2 | ...
asynchronous    schedule 1 | run 1 (schedule 2) | process 1, run 2 (schedule 3) | ...
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np
import simpy
from plain.batch_shape import batch_shape
from plain.content import ContentTree
from plain.request import Request
from plain.scheduler import Admission, Batch, ContinuousScheduler

from sim.engine.record import EngineLog, Outcome, TurnRecord
from sim.scheduling.request import Status
from sim.steptime.ahead import StepPrices
from workloads.session import Prompt
from workloads.span import Span


class _Step(NamedTuple):
    batch: Batch
    seconds: float
    kv_usage: float


class Engine:
    """One engine replica: a scheduler, a block pool, and a clock."""

    def __init__(self, env: simpy.Environment, scheduler: ContinuousScheduler, steps: StepPrices) -> None:
        self.env = env
        self.scheduler = scheduler
        self.totals = EngineLog()
        self._steps = steps
        self._content = ContentTree(scheduler.config.block_size)
        self._records: list[TurnRecord] = []  # by request number
        self._done: dict[int, Callable[[], object]] = {}
        self._live: dict[TurnRecord, Request] = {}
        self.token_times_s: dict[TurnRecord, list[float]] = {}
        self._work = env.event()
        env.process(self._asynchronous() if scheduler.config.async_scheduling else self._synchronous())

    def warm(self, prefix: tuple[Span, ...]) -> None:
        """Put a prefix into the cache as an earlier request would have left it, as far as the pool reaches."""
        pool = self.scheduler.pool
        nodes = self._content.nodes(prefix)[: pool.num_free]
        if len(nodes):
            blocks = np.array(pool.take(len(nodes)), np.int64)
            pool.register(blocks, nodes)
            pool.release(blocks)

    def submit(self, prompt: Prompt, record: TurnRecord, done: Callable[[], object], priority: int = 0) -> bool:
        """Queue a turn and return the event of its last token; None if it can never fit (then refused)."""
        room = self.scheduler.config.max_model_len - record.prompt_tokens
        record.output_tokens = min(record.output_tokens, max(room, 1))
        record.queued_s = self.env.now
        if not self.scheduler.can_ever_fit(record.prompt_tokens, record.output_tokens):
            record.outcome = Outcome.REFUSED
            return False
        number = len(self._records)
        answer = prompt.output._replace(length=record.output_tokens)
        request = Request(
            str(number),
            number,
            record.prompt_tokens,
            record.output_tokens,
            self._content.nodes([*prompt.spans, answer]),
            self.scheduler.config.block_size,
            priority=priority,
            arrival=float(number),  # distinct, as real times are: ties of priority could preempt each other for ever
        )
        self._records.append(record)
        self._live[record] = request
        self.scheduler.add(request)
        self._done[number] = done
        if not self._work.triggered:
            self._work.succeed()
        return True

    def abort(self, record: TurnRecord) -> None:
        """Drop a turn whose client is gone; it counts as aborted.

        One that waits leaves the queue at once. One that runs leaves when its step ends, with its next token, as
        the engine takes in aborts between steps.
        """
        request = self._live.get(record)
        if request is None:
            return
        record.outcome = Outcome.ABORTED
        if request.status is Status.RUNNING or request.in_flight_outputs:
            request.output_tokens = request.generated_tokens + max(request.in_flight_outputs, 1)
        else:
            self.scheduler.waiting.remove(request)
            self._retire(record, request)

    def _retire(self, record: TurnRecord, request: Request) -> None:
        del self._live[record]
        self._done.pop(request.number)()

    def _synchronous(self) -> Generator[simpy.Event, None, None]:
        while True:
            if not self.scheduler.has_requests:
                yield self._wait_for_work()
            batch = self._schedule()
            assert batch.scheduled or batch.preempted, "no progress: nothing runs and nothing can be admitted"
            if batch.scheduled:
                step = self._price(batch)
                yield self.env.timeout(step.seconds)
                self._process(step)

    def _asynchronous(self) -> Generator[simpy.Event, None, None]:
        running: _Step | None = None
        ends_s = 0.0
        while True:
            if running is None and not self.scheduler.has_requests:
                yield self._wait_for_work()
            batch = self._schedule()
            assert running or batch.scheduled or batch.preempted, "no progress: nothing can be admitted"
            step = self._price(batch) if batch.scheduled else None
            if running is not None:
                yield self._towards(ends_s)
                if self.env.now < ends_s:
                    yield self._towards(ends_s)
                self._process(running)
            running = step
            if running is not None:
                ends_s = self.env.now + running.seconds

    def _towards(self, time_s: float) -> simpy.Event:
        """Return an event at exactly this time; or half-way, where the clock's sum would round to a neighbour."""
        now = self.env.now
        delay_s = time_s - now
        return self.env.timeout(delay_s if now + delay_s == time_s else time_s / 2)

    def forget(self, prompt: Prompt, first_token: int) -> None:
        """Go on remembering everything."""

    def settle(self) -> None:
        """Nothing is put off here."""

    def log(self) -> EngineLog:
        """Return the totals since the last call of `restart_log`."""
        return self.totals

    def restart_log(self) -> None:
        """Let totals count from now on."""
        self.totals = EngineLog()

    def _wait_for_work(self) -> simpy.Event:
        self._work = self.env.event()
        return self._work

    def _schedule(self) -> Batch:
        batch = self.scheduler.schedule()
        for admission in batch.admitted:
            self._note_admission(admission)
        for request in batch.preempted:
            self._records[request.number].preemptions += 1
        return batch

    def _note_admission(self, admission: Admission) -> None:
        request = admission.request
        record = self._records[request.number]
        if admission.resumed:
            record.reprefilled_tokens += max(0, request.preempted_tokens - admission.hit_tokens)
            return
        record.scheduled_s = self.env.now
        record.hit_tokens = admission.hit_tokens
        record.lost_tokens = admission.lost_blocks * self.scheduler.config.block_size
        record.reprefilled_tokens += record.lost_tokens
        if admission.lost_to >= 0:
            other = self._records[admission.lost_to]
            record.evicted_by = f"{other.session}/{other.turn}"

    def _price(self, batch: Batch) -> _Step:
        count_shared = self._steps.shared_tokens_read_once > 0
        shape = batch_shape(batch, self.scheduler, count_shared=count_shared)
        seconds = self._steps.seconds(shape)
        log = self.totals
        log.steps += 1
        log.computed_tokens += shape.tokens
        usage = self.scheduler.pool.usage
        log.kv_usage_peak = max(log.kv_usage_peak, usage)
        log.evicted_blocks += batch.evicted_blocks
        log.running_peak = max(log.running_peak, len(self.scheduler.running))
        return _Step(batch, seconds, usage)

    def _process(self, step: _Step) -> None:
        now = self.env.now
        self.totals.busy_s += step.seconds
        self.totals.kv_usage_seconds += step.kv_usage * step.seconds
        finished = self.scheduler.process(step.batch)
        for request, _, _, samples in step.batch.scheduled:
            if samples:
                self.token_times_s.setdefault(self._records[request.number], []).append(now)
        for request in finished:
            record = self._records[request.number]
            record.first_token_s, record.last_token_s = self.token_times_s[record][0], now
            if record.outcome is not Outcome.ABORTED:
                record.outcome = Outcome.COMPLETED
            self._retire(record, request)
