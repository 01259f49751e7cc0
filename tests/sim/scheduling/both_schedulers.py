"""Our scheduler and the plain one, driven through the same steps and compared after each: decisions, queues, blocks.

Ours may take several steps at once where it says that they hold the decode group alone, as the engine lets it; the
plain one takes them one by one. What happens from outside (arrivals, aborts) comes where it can in an engine: between
a step's `schedule` and the `process` that follows it, or before `schedule`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from batch_shares import shares_of
from plain.batch_shape import batch_shape as plain_shape
from plain.block_pool import BlockPool as PlainPool
from plain.content import ContentTree as PlainTree
from plain.request import Request as PlainRequest
from plain.scheduler import Batch as PlainBatch
from plain.scheduler import ContinuousScheduler as PlainScheduler
from scheduler_strategies import Asked

from sim.engine.batch_shape import batch_shape
from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.batch import Batch
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig, check_integrity
from sim.scheduling.request import Request, Status


@dataclass(frozen=True)
class Manner:
    """How two schedulers are driven."""

    num_gpu_blocks: int
    caching: bool = True
    numbered: bool = False
    leaps: float = 0.0  # how often quiet steps are taken at once
    settles: float = 0.0  # how often everything put off is caught up with after a step, and compared
    aborts: float = 0.0  # share of requests whose client loses patience
    seed: int = 0


class BothSchedulers:
    """`steps` counts calls of `schedule`; those that schedule nobody make no batch."""

    def __init__(self, config: SchedulerConfig, asked: list[Asked], manner: Manner) -> None:
        self.config, self.manner = config, manner
        self.rng = random.Random(manner.seed)
        tree, plain_tree = ContentTree(config.block_size), PlainTree(config.block_size)
        self.requests = [of.request(tree, number) for number, of in enumerate(asked)]
        self.twins = [_plain(of, number, plain_tree) for number, of in enumerate(asked)]
        self.ours = self.scheduler()
        self.plain = PlainScheduler(config, PlainPool(manner.num_gpu_blocks, enable_prefix_caching=manner.caching))
        self.token_steps: dict[str, list[int]] = {request.id: [] for request in self.requests}
        self.events: dict[tuple[int, bool], list[tuple[str, int]]] = {}  # (step, after its schedule) -> what happens
        for number, of in enumerate(asked):
            self.events.setdefault((of.step, self.rng.random() < 0.5), []).append(("add", number))
            if self.rng.random() < manner.aborts:
                at = of.step + 1 + self.rng.randint(0, 30)
                self.events.setdefault((at, self.rng.random() < 0.8), []).append(("abort", number))
        self.step = 0
        self.steps_taken_ahead = 0
        self.preemptions = 0
        self._batches = 0  # of the plain scheduler
        self._running: tuple[Batch, PlainBatch, int] | None = None  # of an asynchronous engine: not processed yet

    def scheduler(self) -> ContinuousScheduler:
        """Return the scheduler to compare with the plain one."""
        manner = self.manner
        pool = BlockPool(manner.num_gpu_blocks, enable_prefix_caching=manner.caching, numbered=manner.numbered)
        return ContinuousScheduler(self.config, pool)

    def compare_blocks(self, request: Request, twin: PlainRequest) -> None:
        """Compare what a request holds."""
        assert request.table.blocks == twin.num_blocks
        if self.manner.caching:
            assert max(request.table.registered, 0) == twin.num_registered
        if self.manner.numbered:
            assert request.table.numbers == twin.blocks.tolist()

    def check(self) -> None:
        """Raise AssertionError unless blocks add up."""
        check_integrity(self.ours)

    def go(self, most_steps: int) -> None:
        """Step until nothing is left."""
        while self.events or self.ours.has_requests or self._running:
            assert self.step < most_steps, "no progress"
            self._happen(after=False)
            ahead = self._steps_ahead()
            if ahead:
                self._leap(ahead)
            else:
                self._schedule()
            self.compare(settled=self.rng.random() < self.manner.settles)
        self.compare(settled=True)
        assert self.ours.pool.num_free == self.ours.pool.usable_blocks

    def compare(self, *, settled: bool) -> None:
        """Compare queues and the pool; if `settled`, what is known of each request too, which ends all laziness."""
        ours, plain = self.ours, self.plain
        assert [request.id for request in ours.running] == [request.id for request in plain.running]
        assert [request.id for request in ours.waiting] == [request.id for request in plain.waiting]
        assert ours.pool.num_free == plain.pool.num_free
        assert ours.pool.num_evicted == plain.pool.num_evicted
        assert ours.pool.num_held == sum(request.num_blocks for request in plain.running)
        if not settled:
            return
        self.check()
        assert ours.pool.num_cached == plain.pool.num_cached
        for request, twin in zip(self.requests, self.twins, strict=True):
            for name in (
                "status",
                "generated_tokens",
                "computed_tokens",
                "in_flight_outputs",
                "num_preemptions",
                "preempted_tokens",
                "output_tokens",
            ):
                assert getattr(request, name) == getattr(twin, name), (request.id, name)
            self.compare_blocks(request, twin)
            steps = request.token_steps
            stretches = zip(steps[::2], steps[1::2], strict=True)
            assert [step for first, last in stretches for step in range(first, last + 1)] == self.token_steps[
                request.id
            ]

    def _happen(self, *, after: bool) -> None:
        for what, number in self.events.pop((self.step, after), []):
            request, twin = self.requests[number], self.twins[number]
            if what == "add":
                self.ours.add(request)
                self.plain.add(twin)
            elif twin.status is not Status.FINISHED:
                self._abort(request, twin)

    def _abort(self, request: Request, twin: PlainRequest) -> None:
        self.ours.settle(request)
        assert (request.status, request.in_flight_outputs) == (twin.status, twin.in_flight_outputs)
        if twin.status is Status.RUNNING or twin.in_flight_outputs:
            output = twin.generated_tokens + max(twin.in_flight_outputs, 1)
            twin.output_tokens = output
            self.ours.change_output(request, output)
        else:
            twin.status = Status.FINISHED
            self.plain.waiting.remove(twin)
            self.ours.withdraw(request)

    def _steps_ahead(self) -> int:
        """Return how many quiet steps to take at once, none that an event would disturb."""
        if self.config.async_scheduling and self._running is None:
            return 0
        quiet = self.ours.quiet_steps()
        if not quiet or self.rng.random() >= self.manner.leaps:
            return 0
        next_event = min(((step - self.step + after) for step, after in self.events), default=quiet)
        if self._running is not None:
            batch = self._running[0]
            if batch.left or not all(entry.request.in_group for entry in batch.scheduled):
                return 1
        most = min(quiet, max(next_event, 1))
        return self.rng.choice([most, self.rng.randint(1, most)])

    def _leap(self, steps: int) -> None:
        ours, plain = self.ours, self.plain
        rows = [request.id for request in ours.group.members.values()]
        self.steps_taken_ahead += steps
        in_use = ours.advance(steps)
        assert len(in_use) == steps
        for index in range(steps):
            batch = plain.schedule()
            self._batches += 1
            assert [(entry.request.id, entry.tokens) for entry in batch.scheduled] == [(name, 1) for name in rows]
            assert all(entry.samples for entry in batch.scheduled)
            assert (batch.admitted, batch.preempted) == ([], [])
            assert in_use[index] == plain.pool.usable_blocks - plain.pool.num_free
            last = index == steps - 1
            following = Batch(), batch, self._batches
            if last:
                following = ours.fly(ours.step), batch, self._batches
            if not self.config.async_scheduling:
                if not last:
                    assert not self._process_plain(*following[1:])
                    continue
                if steps > 1:
                    ours.pass_over(ours.step - 1)
            elif not last:
                assert self._running is not None
                if index == 0:
                    self._process(*self._running)
                else:
                    assert not self._process_plain(*self._running[1:])
                self._running = following
                if index == steps - 2:
                    ours.pass_over(ours.step - 2)
                    self._running = (ours.fly(ours.step - 1), *following[1:])
                continue
            self.step += index
            self._after(*following)

    def _schedule(self) -> None:
        evicted = self.plain.pool.num_evicted
        theirs = self.plain.schedule()
        mine = self.ours.schedule()
        ours = shares_of(mine, self.ours)
        assert [_told(entry, _SHARE) for entry in ours] == [_told(entry, _SHARE) for entry in theirs.scheduled]
        admitted = [_told(entry, _ADMISSION) for entry in mine.admitted]
        assert admitted == [_told(entry, _ADMISSION) for entry in theirs.admitted]
        assert [request.id for request in mine.preempted] == [request.id for request in theirs.preempted]
        assert mine.evicted_blocks == theirs.evicted_blocks == self.plain.pool.num_evicted - evicted
        assert mine.is_empty == (not theirs.scheduled)
        if theirs.scheduled:
            shape = batch_shape(mine, self.ours, count_shared=True)
            assert shape == plain_shape(theirs, self.plain, count_shared=True)
            self._batches += 1
            assert mine.step == self.ours.step == self._batches
        self.preemptions += len(theirs.preempted)
        self._after(mine, theirs, self._batches)

    def _after(self, mine: Batch, theirs: PlainBatch, number: int) -> None:
        """Let happen what happens after a step's `schedule`, and process what comes back."""
        self._happen(after=True)
        if not self.config.async_scheduling:
            self._process(mine, theirs, number)
        else:
            if self._running is not None:
                self._process(*self._running)
            self._running = (mine, theirs, number) if theirs.scheduled else None
        self.step += 1

    def _process(self, mine: Batch, theirs: PlainBatch, number: int) -> None:
        finished = [request.id for request in self.ours.process(mine)]
        assert finished == self._process_plain(theirs, number)

    def _process_plain(self, batch: PlainBatch, number: int) -> list[str]:
        for entry in batch.scheduled:
            if entry.samples:
                self.token_steps[entry.request.id].append(number)
        return [request.id for request in self.plain.process(batch)]


_SHARE = ("tokens", "computed_before", "samples")
_ADMISSION = ("hit_tokens", "resumed", "lost_blocks", "lost_to")


def _told(entry: Any, fields: Sequence[str]) -> tuple[Any, ...]:
    """Return an entry of either scheduler's batch as values."""
    return entry.request.id, *(getattr(entry, name) for name in fields)


def _plain(of: Asked, number: int, tree: PlainTree) -> PlainRequest:
    return PlainRequest(
        f"r{number}",
        number,
        of.shared + of.own,
        of.output,
        tree.nodes(of.spans(number)),
        tree.block_size,
        priority=of.priority,
        arrival=float(number),
    )
