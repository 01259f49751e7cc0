"""The engine as a SimPy process: schedule, run the batch for as long as it takes, process its tokens.

With asynchronous scheduling (vLLM's default on GPUs) the next batch is decided while the previous one runs:
what arrives during a step waits for the rest of it and for the step already decided.

    synchronous     schedule 1 | run 1 | process 1, schedule 2 | run 2 | ...
    asynchronous    schedule 1 | run 1 (schedule 2) | process 1, run 2 (schedule 3) | ...

Where only the decode group has work, and nobody else can act before a step ends, the engine looks ahead: it takes
all steps up to the next event of anybody's in one go, exactly as if it had taken them one by one.
"""

from collections.abc import Generator
from typing import NamedTuple

import simpy

from sim.engine.batch_shape import batch_shape, shared_tokens
from sim.engine.extras import Extras
from sim.engine.intake import Intake
from sim.engine.pressure_costs import PressureCosts
from sim.engine.record import EngineLog, Outcome, TurnRecord
from sim.scheduling.batch import Batch
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.growing import Growing
from sim.steptime.ahead import StepPrices, Stretch
from workloads.span import Span


class _Mark(NamedTuple):
    """Where totals count from."""

    scheduled_steps: int = 0
    processed_steps: int = 0
    computed_tokens: int = 0
    evicted_blocks: int = 0


class Engine(Intake):
    """One engine replica: a scheduler, a block pool, and a clock."""

    def __init__(  # noqa: PLR0917 - compiled
        self,
        env: simpy.Environment,
        scheduler: ContinuousScheduler,
        prices: StepPrices,
        first_token_due_s: float | None = None,
        extras: Extras | None = None,
        delivery_s: float = 0.0,
        under_pressure: PressureCosts = PressureCosts(),
    ) -> None:
        super().__init__(env, scheduler, prices, under_pressure, first_token_due_s, extras)
        self._delivery_s = delivery_s  # from the end of a step until its tokens are with the client
        self.keeps_chunks = False  # whether records say in which steps which tokens of them were computed
        self._counts_shared = prices.shared_tokens_read_once > 0
        self._computed_tokens = 0
        self._running_peak = 0
        self._mark = _Mark()
        env.process(self._asynchronous() if scheduler.config.async_scheduling else self._synchronous())

    def warm(self, prefix: tuple[Span, ...]) -> None:
        """Put a prefix into the cache as an earlier request would have left it, as far as the pool reaches."""
        self.scheduler.warm(self._content.content(prefix))
        self._mark = self._mark._replace(evicted_blocks=self.scheduler.pool.num_evicted)

    def log(self) -> EngineLog:
        """Return the totals since the last call of `restart_log`."""
        mark, pool, steps = self._mark, self.scheduler.pool, self.steps
        processed = slice(mark.processed_steps, self.scheduler.processed)
        usable = pool.usable_blocks or 1
        seconds = steps.seconds()[processed]
        return EngineLog(
            steps=len(steps.ends_s) - mark.scheduled_steps,
            busy_s=float(seconds.sum()),
            computed_tokens=self._computed_tokens - mark.computed_tokens,
            kv_usage_peak=int(steps.blocks()[mark.scheduled_steps :].max(initial=0)) / usable,
            kv_usage_seconds=float((seconds * steps.blocks()[processed]).sum()) / usable,
            evicted_blocks=pool.num_evicted - mark.evicted_blocks,
            running_peak=self._running_peak,
            waste=self.scheduler.waste,
            pressure=self.pressure,
        )

    def restart_log(self) -> None:
        """Let totals count from now on."""
        scheduler = self.scheduler
        scheduled = len(self.steps.ends_s)
        self._mark = _Mark(scheduled, scheduler.processed, self._computed_tokens, scheduler.pool.num_evicted)
        self._running_peak = 0

    def _synchronous(self) -> Generator[simpy.Event, None, None]:
        env, scheduler = self.env, self.scheduler
        now_s = env.now  # runs ahead of the environment's where nobody can see it
        while True:
            if not scheduler.has_requests:
                yield self._wait_for_work()
                now_s = env.now
            steps = scheduler.quiet_steps()
            until_s = env.peek()
            if steps:
                ends_s = self._look_ahead(steps, now_s, until_s)
                if len(ends_s) > 1:
                    scheduler.pass_over(scheduler.step - 1)
                batch, end_s = scheduler.fly(scheduler.step), ends_s[-1]
            else:
                batch = self._schedule(now_s)
                if batch.out_of_memory:
                    yield from self._crash(now_s)
                    now_s = env.now
                    continue
                assert not batch.is_empty or batch.preempted, "no progress: nothing runs and nothing can be admitted"
                if batch.is_empty:
                    continue
                end_s = self._run(batch, now_s)
            if steps or end_s >= until_s or scheduler.finishes_somebody(batch):
                yield self._towards(end_s)
                if env.now < end_s:
                    yield self._towards(end_s)
            self._process(batch)
            now_s = end_s

    def _asynchronous(self) -> Generator[simpy.Event, None, None]:
        env, scheduler = self.env, self.scheduler
        running: Batch | None = None
        following: Batch | None
        now_s, end_s = env.now, 0.0
        while True:
            if running is None and not scheduler.has_requests:
                yield self._wait_for_work()
                now_s = env.now
            steps = scheduler.quiet_steps() if running is not None else 0
            until_s = env.peek()
            if steps and running is not None:
                alone = not running.left and all(entry.request.in_group for entry in running.scheduled)
                ends_s = self._look_ahead(steps if alone and end_s < until_s else 1, end_s, until_s, more_steps=1)
                if len(ends_s) > 1:
                    self._process(running)
                    scheduler.pass_over(scheduler.step - 2)
                    running, end_s = scheduler.fly(scheduler.step - 1), ends_s[-2]
                following, next_end_s = scheduler.fly(scheduler.step), ends_s[-1]
            else:
                following = self._schedule(now_s)
                assert running or not following.is_empty or following.preempted, "no progress: nothing can be admitted"
                start_s = next_end_s = now_s if running is None else end_s
                if following.is_empty:
                    following = None
                else:
                    next_end_s = self._run(following, start_s)
            if running is not None:
                if end_s >= until_s or scheduler.finishes_somebody(running):
                    yield self._towards(end_s)
                    if env.now < end_s:
                        yield self._towards(end_s)
                self._process(running)
                now_s = end_s
            running, end_s = following, next_end_s

    def _crash(self, at_s: float) -> Generator[simpy.Event, None, None]:
        """Lose every request, then start again; until then all are rejected."""
        scheduler, env = self.scheduler, self.env
        assert isinstance(scheduler, Growing)
        while env.now < at_s:
            yield self._towards(at_s)
        scheduler.lose_everything()
        self._down_until_s = at_s + self._under_pressure.restart_s
        self._drop(Outcome.LOST)
        while env.now < self._down_until_s:
            yield self._towards(self._down_until_s)

    def _towards(self, time_s: float) -> simpy.Event:
        """Return an event at exactly this time; or half-way, where the clock's sum would round to a neighbour."""
        now = self.env.now
        delay_s = time_s - now
        return self.env.timeout(delay_s if now + delay_s == time_s else time_s / 2)

    def _look_ahead(self, most_steps: int, start_s: float, until_s: float, more_steps: int = 0) -> list[float]:
        """Schedule the decode group alone until somebody else may act; return when the steps end."""
        scheduler, group = self.scheduler, self.scheduler.group
        rows = group.rows
        shared = shared_tokens(scheduler, rows) if self._counts_shared else 0.0
        stretch = Stretch(rows, group.kv_tokens, shared, start_s, until_s, most_steps, more_steps)
        if self._extras is not None:
            self._extras.add_to_stretch(stretch, group, scheduler.step + 1)
        ends_s = self._prices.ends_s(stretch)
        self.steps.add_stretch(start_s, ends_s, scheduler.advance(len(ends_s)))
        self._computed_tokens += rows * len(ends_s)
        self._running_peak = max(self._running_peak, len(scheduler.running))
        return ends_s

    def _schedule(self, now_s: float) -> Batch:
        batch = self.scheduler.schedule()
        for admission in batch.admitted:
            self._note_admission(admission, now_s)
        for request in batch.preempted:
            request.owner.preemptions += 1
        return batch

    def _run(self, batch: Batch, start_s: float) -> float:
        """Start a batch; return when it ends."""
        scheduler = self.scheduler
        shape = batch_shape(batch, scheduler, count_shared=self._counts_shared)
        if self._extras is not None:
            shape = self._extras.added(shape, batch, scheduler.group)
        if self.keeps_chunks:
            _note_chunks(batch)
        end_s = start_s + self._prices.seconds(shape)
        if batch.moved_blocks:
            end_s += self._copy_s(batch.moved_blocks)
        pool = scheduler.pool
        self.steps.add(start_s, end_s, pool.usable_blocks - pool.num_free)
        self._computed_tokens += shape.tokens
        self._running_peak = max(self._running_peak, len(scheduler.running))
        return end_s

    def _copy_s(self, blocks: int) -> float:
        """Return how long blocks take over PCIe; the step waits for them."""
        seconds = blocks * self._under_pressure.seconds_per_moved_block
        if self.pressure is not None:
            self.pressure.swap_s += seconds
        return seconds

    def _process(self, batch: Batch) -> None:
        ends_s = self.steps.ends_s
        for request in self.scheduler.process(batch):
            record: TurnRecord = request.owner
            steps = request.token_steps
            record.first_token_s = ends_s[steps[0] - 1] + self._delivery_s
            record.last_token_s = ends_s[batch.step - 1] + self._delivery_s
            if record.outcome is not Outcome.ABORTED:
                record.outcome = Outcome.COMPLETED
            self._retire(request)
        if self.scheduler.dropped:
            self._drop(Outcome.SHED)


def _note_chunks(batch: Batch) -> None:
    """Enter in the records what of their prompts, or after a preemption of their output, a batch computes.

    Who comes back with all of its KV, from host memory say, computes a single token; only the step tells that it
    waited.
    """
    for admission in batch.admitted:
        if admission.resumed:
            resumed: TurnRecord = admission.request.owner
            resumed.resumed_steps.append(batch.step)
    for entry in batch.scheduled:
        request = entry.request
        if entry.tokens > 1 or entry.computed_before < request.prompt_tokens:
            record: TurnRecord = request.owner
            record.chunks.append((batch.step, entry.computed_before, entry.tokens))
