"""The engine as a SimPy process: schedule, run the batch for as long as it takes, process its tokens.

With asynchronous scheduling (vLLM's default on GPUs) the next batch is decided while the previous one runs:
what arrives during a step waits for the rest of it and for the step already decided.

    synchronous     schedule 1 | run 1 | process 1, schedule 2 | run 2 | ...
    asynchronous    schedule 1 | run 1 (schedule 2) | process 1, run 2 (schedule 3) | ...

Where only the decode group has work, and nobody else can act before a step ends, the engine looks ahead: it takes
all steps up to the next event of anybody's in one go, exactly as if it had taken them one by one.
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

import simpy

from sim.engine.batch_shape import batch_shape, shared_tokens
from sim.engine.extras import Extras
from sim.engine.record import EngineLog, Outcome, TurnRecord
from sim.engine.step_log import StepLog
from sim.kv.content import ContentTree
from sim.scheduling.batch import Admission, Batch
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.request import Request, Status
from sim.steptime.ahead import StepPrices, Stretch
from sim.steptime.batch import BatchShape
from workloads.session import Prompt
from workloads.span import Span


class _Mark(NamedTuple):
    """Where totals count from."""

    scheduled_steps: int = 0
    processed_steps: int = 0
    computed_tokens: int = 0
    evicted_blocks: int = 0


class _Live(NamedTuple):
    """A turn in the engine: who is told of its end, and from which token on its content is of no use then."""

    request: Request
    done: Callable[[], object]
    over_from: int | None


_ASKED_AT_FIRST = 10_000


class Engine:
    """One engine replica: a scheduler, a block pool, and a clock."""

    def __init__(  # noqa: PLR0917 - compiled
        self,
        env: simpy.Environment,
        scheduler: ContinuousScheduler,
        prices: StepPrices,
        first_token_due_s: float | None = None,
        extras: Extras | None = None,
        delivery_s: float = 0.0,
    ) -> None:
        self.env = env
        self.scheduler = scheduler
        self.steps = StepLog()
        self._prices = prices
        self._first_token_due_s = first_token_due_s
        self._extras = extras
        self._delivery_s = delivery_s  # from the end of a step until its tokens are with the client
        self.keeps_chunks = False  # whether records say in which steps which tokens of them were computed
        self._counts_shared = prices.shared_tokens_read_once > 0
        self._content = ContentTree(scheduler.config.block_size)
        # Told of each record that changes no more. The engine then remembers nothing of such a turn either: of content
        # that nobody will send again, it knows no longer that it was there.
        self.on_over: Callable[[TurnRecord], object] | None = None
        self._requests = 0
        self._asked: dict[int, tuple[str, int]] = {}  # session and turn, by request number
        self._asked_most = _ASKED_AT_FIRST
        self._live: dict[TurnRecord, _Live] = {}
        self._computed_tokens = 0
        self._running_peak = 0
        self._mark = _Mark()
        self._work = env.event()
        env.process(self._asynchronous() if scheduler.config.async_scheduling else self._synchronous())

    def warm(self, prefix: tuple[Span, ...]) -> None:
        """Put a prefix into the cache as an earlier request would have left it, as far as the pool reaches."""
        self.scheduler.warm(self._content.content(prefix))
        self._mark = self._mark._replace(evicted_blocks=self.scheduler.pool.num_evicted)

    def submit(self, prompt: Prompt, record: TurnRecord, done: Callable[[], object], priority: int = 0) -> bool:
        """Queue a turn, `done` to be called at its last token; False if it can never fit (then refused)."""
        scheduler = self.scheduler
        room = scheduler.config.max_model_len - record.prompt_tokens
        record.output_tokens = min(record.output_tokens, max(room, 1))
        record.queued_s = self.env.now
        if not scheduler.can_ever_fit(record.prompt_tokens, record.output_tokens):
            record.outcome = Outcome.REFUSED
            if self.on_over is not None:
                self.on_over(record)
            return False
        number = self._requests
        self._requests += 1
        if len(self._asked) == self._asked_most:
            self._forget_who_asked()
        self._asked[number] = record.session, record.turn
        record.steps = self.steps
        answer = prompt.output
        if answer.length != record.output_tokens:
            answer = answer._replace(length=record.output_tokens)
        request = Request(
            str(number),
            number,
            record.prompt_tokens,
            record.output_tokens,
            self._content.content((*prompt.spans, answer)),
            priority=priority,
            arrival=float(number),  # distinct, as real times are: ties of priority could preempt each other for ever
            owner=record,
        )
        if self._extras is not None:
            self._extras.mark(request)
            record.penalised, record.structured = request.penalised, request.structured
        if self._first_token_due_s is not None:
            request.due_s = self.env.now + self._first_token_due_s - self._prefill_s(record.prompt_tokens)
        scheduler.add(request)
        self._live[record] = _Live(request, done, prompt.over_from)
        if not self._work.triggered:
            self._work.succeed()
        return True

    def abort(self, record: TurnRecord) -> None:
        """Drop a turn whose client is gone; it counts as aborted.

        One that waits leaves the queue at once. One that runs leaves when its step ends, with its next token, as
        the engine takes in aborts between steps.
        """
        if record not in self._live:
            return
        request = self._live[record].request
        record.outcome = Outcome.ABORTED
        self.scheduler.settle(request)
        if request.status is Status.RUNNING or request.in_flight_outputs:
            self.scheduler.change_output(request, request.generated_tokens + max(request.in_flight_outputs, 1))
        else:
            self.scheduler.withdraw(request)
            self._retire(request)

    def forget(self, prompt: Prompt, first_token: int) -> None:
        """Take note that nobody will send a prompt's tokens again from this one on."""
        if self.on_over is not None:
            self._content.forget(self._content.content(prompt.spans), first_token // self.scheduler.config.block_size)

    def settle(self) -> None:
        """Enter the tokens that came so far of turns that are still under way."""
        self.scheduler.settle_all()
        for record, live in self._live.items():
            record.token_steps = live.request.token_steps

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

    def _prefill_s(self, tokens: int) -> float:
        """Return how long a prompt takes alone, in one step."""
        return self._prices.seconds(BatchShape(tokens, 1, tokens * (tokens + 1) / 2, 0, 0, 0.0, True, tokens))

    def _towards(self, time_s: float) -> simpy.Event:
        """Return an event at exactly this time; or half-way, where the clock's sum would round to a neighbour."""
        now = self.env.now
        delay_s = time_s - now
        return self.env.timeout(delay_s if now + delay_s == time_s else time_s / 2)

    def _wait_for_work(self) -> simpy.Event:
        self._work = self.env.event()
        return self._work

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

    def _note_admission(self, admission: Admission, now_s: float) -> None:
        request = admission.request
        record: TurnRecord = request.owner
        if admission.resumed:
            record.reprefilled_tokens += max(0, request.preempted_tokens - admission.hit_tokens)
            return
        record.scheduled_s = now_s
        record.hit_tokens = admission.hit_tokens
        record.lost_tokens = admission.lost_blocks * self.scheduler.config.block_size
        record.reprefilled_tokens += record.lost_tokens
        if admission.lost_to >= 0:
            session, turn = self._asked[admission.lost_to]
            record.evicted_by = f"{session}/{turn}"

    def _run(self, batch: Batch, start_s: float) -> float:
        """Start a batch; return when it ends."""
        scheduler = self.scheduler
        shape = batch_shape(batch, scheduler, count_shared=self._counts_shared)
        if self._extras is not None:
            shape = self._extras.added(shape, batch, scheduler.group)
        if self.keeps_chunks:
            _note_chunks(batch)
        end_s = start_s + self._prices.seconds(shape)
        pool = scheduler.pool
        self.steps.add(start_s, end_s, pool.usable_blocks - pool.num_free)
        self._computed_tokens += shape.tokens
        self._running_peak = max(self._running_peak, len(scheduler.running))
        return end_s

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

    def _retire(self, request: Request) -> None:
        record: TurnRecord = request.owner
        _, done, over_from = self._live.pop(record)
        record.token_steps = request.token_steps
        if self.on_over is not None:
            if over_from is not None:
                self._content.forget(request.content, over_from // self.scheduler.config.block_size)
            self.on_over(record)
        done()

    def _forget_who_asked(self) -> None:
        """Forget the turns that are over and took no block that somebody may still miss."""
        named = self._content.takers().union(live.request.number for live in self._live.values())
        self._asked = {number: turn for number, turn in self._asked.items() if number in named}
        self._asked_most = 2 * len(self._asked) + _ASKED_AT_FIRST


def _note_chunks(batch: Batch) -> None:
    """Enter in the records what of their prompts, or after a preemption of their output, a batch computes."""
    for entry in batch.scheduled:
        request = entry.request
        if entry.tokens > 1 or entry.computed_before < request.prompt_tokens:
            record: TurnRecord = request.owner
            record.chunks.append((batch.step, entry.computed_before, entry.tokens))
