"""Continuous batching as vLLM V1 schedules it (0.32.0): one token budget, running first, then waiting.

There is no prefill or decode phase: each request wants the tokens known of it but not yet computed, so a decode wants
1 and a prompt wants its rest. `schedule` decides a batch, `process` takes in its sampled tokens. Synchronous engines
call them in turn; with asynchronous scheduling `schedule` runs while the previous batch is still on the device, and
finishes and freed blocks come one step later.

The running list begins with requests that decode in lockstep; those are kept as a group and cost the same whatever
their number (running_list.py). The others, its tail, are walked one by one. `quiet_steps` says for how many steps
the group alone goes on, undisturbed: `advance` takes them in one go.

Pure: no clock, no SimPy, no files, so recorded decisions of the real scheduler can be replayed against it.
Not modelled: speculative decoding, LoRA, connectors, encoder inputs. Layers that keep different things: hybrid.py.
"""

from bisect import insort
from typing import TYPE_CHECKING

from sim.kv.block_pool import BlockPool
from sim.scheduling.batch import Admission, Batch, Scheduled
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.order import RANKS, by_priority
from sim.scheduling.request import Request, Status
from sim.scheduling.running_list import RunningList, place_of

if TYPE_CHECKING:
    from sim.scheduling.waste import Waste

__all__ = ["ContinuousScheduler", "SchedulerConfig", "check_integrity"]


def _victim_rank(request: Request) -> tuple[int, float]:
    return request.priority, request.arrival


class ContinuousScheduler(RunningList):
    """Waiting queue, running list and block pool; rule numbers refer to the recorded decisions' README."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(config, pool)
        self.waiting: list[Request] = []  # next in line first
        self._admissions = 0
        self._rank = RANKS[config.policy]
        self.waste: Waste | None = None  # vLLM's own pads nothing and reserves nothing

    @property
    def has_requests(self) -> bool:
        """Whether anything is waiting or running."""
        return bool(self.waiting or self.running)

    def can_ever_fit(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether the request, its output included, fits an otherwise empty pool and max_model_len.

        With chunked prefill off it must fit one step's budget too: once preempted, it comes back whole.
        """
        last_with_kv = prompt_tokens + output_tokens - 1
        in_one_step = self.config.enable_chunked_prefill or last_with_kv <= self.config.max_num_batched_tokens
        fits = self._most_blocks(last_with_kv) <= self.pool.usable_blocks and in_one_step
        return fits and prompt_tokens < self.config.max_model_len

    def add(self, request: Request) -> None:
        """Put a new request in line."""
        for part, _ in request.content:
            part.users += 1
            if part.writer is not None:  # two that fill blocks of the same content take turns: no longer in lockstep
                self._ungroup_from(part.writer)
        if self._rank is not None:
            insort(self.waiting, request, key=self._rank)
        else:
            self.waiting.append(request)

    def withdraw(self, request: Request) -> None:
        """Forget a request that waits."""
        self.waiting.remove(request)
        self._end(request)

    def schedule(self) -> Batch:
        """Decide the next batch and advance its requests' computed tokens."""
        batch = Batch(self.step + 1)
        evicted_before = self.pool.num_evicted
        cap = self._prefill_cap()
        tokens: dict[Request, int] = {}
        if self._regrouped_step != self.step:
            self._regroup()
        budget = self._schedule_group(batch)
        if budget:
            budget = self._schedule_tail(batch, tokens, cap, budget)
        if self.waiting and not batch.preempted:
            self._schedule_waiting(batch, tokens, cap, budget)
        for request, count in tokens.items():
            before = request.computed_tokens
            request.computed_tokens = before + count
            samples = request.computed_tokens >= request.known_tokens + request.in_flight_outputs
            request.in_flight_outputs += samples
            batch.scheduled.append(Scheduled(request, count, before, samples))
        batch.rows = self.group.rows
        batch.kv_tokens = self.group.kv_tokens - batch.rows
        batch.evicted_blocks = self.pool.num_evicted - evicted_before
        if batch.is_empty:
            self.step -= 1
            self._regrouped_step = -1
        else:
            self._in_flight.append(batch)
        return batch

    def process(self, batch: Batch) -> list[Request]:
        """Take in the tokens a batch sampled; return the requests that finished, their blocks freed."""
        step, asynchronous = batch.step, self.config.async_scheduling
        finished: list[Request] = []
        if batch.is_empty:
            return finished
        ending = [] if asynchronous else self.group.ending(step)
        if batch.left:
            for request in ending:
                self._ungroup(request)
            batch.left.sort(key=place_of)
        self.processed = step
        in_flight = self._in_flight
        while in_flight and in_flight[0].step <= step:
            del in_flight[0]
        for request in ending:
            if request.in_group:
                self._ungroup(request)
                self._leave(request)
                finished.append(request)
        for request in batch.left:
            self._take_in(request, step, finished)
        for entry in batch.scheduled:
            if entry.samples:
                self._take_in(entry.request, step, finished)
        return finished

    def finishes_somebody(self, batch: Batch) -> bool:
        """Whether `process` will return a request of this batch."""
        if not self.config.async_scheduling and self.group.rows and self.group.next_end() <= batch.step:
            return True
        for request in batch.left:
            if request.generated_tokens + 1 >= request.output_tokens:
                return True
        for entry in batch.scheduled:
            request = entry.request
            if entry.samples and not request.in_group and request.generated_tokens + 1 >= request.output_tokens:
                return True
        return False

    def quiet_steps(self) -> int:
        """Return how many steps from now on hold the group alone, the last one perhaps with a last token.

        Nothing but a new request can change that. Call it where `schedule` would be called.
        """
        self._regroup()
        group = self.group
        if self._tail or not group.rows or (self.waiting and not self._is_blocked()):
            return 0
        steps = group.next_end() - self.step
        free, size = self.pool.num_free, self.config.block_size
        if free < group.rows * (steps // size + 1):
            steps = group.steps_with(free, self.step, steps)
        return steps

    def _prefill_cap(self) -> int:
        """Most tokens one request may get in this step (rule 17); the budget is not this cap's business."""
        config = self.config
        threshold = config.long_prefill_token_threshold
        present = len(self.running) + len(self.waiting)
        if threshold <= 0 or present <= 1:
            return config.max_model_len
        if config.long_prefill_token_threshold_adaptive:
            return max(threshold, config.max_num_batched_tokens // present)
        return threshold

    # The group: the head of the running list.

    def _schedule_group(self, batch: Batch) -> int:
        """Rules 6 to 9 for the group, a token each. Return the budget that is left; 0 if the pass ended here."""
        group = self.group
        takers = group.needing[batch.step % self.config.block_size]
        budget = self.config.max_num_batched_tokens
        if len(takers) > self.pool.num_free:
            if not self._schedule_short_of_blocks(batch, list(takers)):
                budget = 0
        elif takers:
            self.pool.take_each(takers[:])
        self.step = batch.step
        group.kv_tokens += group.rows
        return max(budget - group.rows, 0)

    def _schedule_short_of_blocks(self, batch: Batch, takers: list[int]) -> bool:
        """Give each member in need its block, in order, preempting others. Return False if the pass ended.

        It ends where a request would have to preempt itself (rule 8): who comes after it gets nothing.
        """
        for number in takers:
            request = self.group.members.get(number)
            if request is None:
                continue
            while not self.pool.num_free:
                victim = self._victim()
                was_member = victim.in_group
                self._unlist(victim)
                if was_member and victim.place < request.place:  # rules 9 and 24: its share of this step is undone,
                    self._settle_table(victim, victim.computed_tokens + 1)  # but what it was to fill stays cached
                self._preempt(batch, victim)
                if victim is request:
                    later = [one for one in self.group.members.values() if one.place > request.place]
                    if later:
                        self._ungroup_from(later[0])
                    return False
            self.pool.take_each([number])
        return True

    def _take_in(self, request: Request, step: int, finished: list[Request]) -> None:
        """Count the token that a step brought a request."""
        request.generated_tokens += 1
        request.in_flight_outputs -= 1
        request.note_tokens(step, step)
        if request.in_group:
            return
        if self.config.async_scheduling and request.status is Status.RUNNING:
            self._register(request, request.computed_tokens - request.in_flight_outputs)
        if request.generated_tokens >= request.output_tokens:
            self._leave(request)
            finished.append(request)

    # The tail of the running list, and the waiting queue.

    def _schedule_tail(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:
        """Rules 6 to 10: in order of admission; short of blocks, preempt until it fits. Return what is left."""
        config = self.config
        tail = self._tail
        index = 0
        while index < len(tail) and budget > 0:
            request = tail[index]
            index += 1
            if config.async_scheduling and self._has_last_token_in_flight(request):
                continue
            wanted = request.known_tokens + request.in_flight_outputs - request.computed_tokens
            count = min(wanted, cap, budget, config.max_model_len - 1 - request.computed_tokens)
            count = self._chunk(request, request.computed_tokens, count)
            if count <= 0:
                continue
            missing = self._missing(request, request.computed_tokens + count)
            while missing > self.pool.num_free:
                victim = self._victim()
                if victim.in_group:
                    self._unlist(victim)
                    victim.computed_tokens -= 1  # it was scheduled in this step
                    victim.in_flight_outputs -= 1
                    budget += 1
                else:
                    index -= victim in tail and tail.index(victim) < index
                    budget += tokens.pop(victim, 0)
                    self._unlist(victim)
                self._preempt(batch, victim)
                if victim is request:
                    return budget
            if missing > 0:
                self._take(request, request.computed_tokens + count, missing)
            tokens[request] = count
            budget -= count
            self._register(request, min(request.computed_tokens + count, request.known_tokens))
        return budget

    def _schedule_waiting(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> None:
        """Rules 11 to 16: strictly head of line; the first that cannot be admitted ends the pass."""
        while self.waiting:
            count = self._admit_head(batch, tokens, cap, budget)
            if not count:
                return
            budget -= count

    def _admit_head(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:
        """Admit the head of the queue if it can be; return the tokens it gets in this step, 0 if it waits on."""
        if len(self.running) >= self.config.max_num_seqs:
            return 0
        request = self.waiting[0]
        admitted = self._admissible(request, cap, budget)
        if admitted is None:
            return 0
        count, hit = admitted
        del self.waiting[0]
        batch.admitted.append(self._enter(request, count, hit))
        request.status = Status.RUNNING
        self._admissions += 1
        request.place = self._admissions
        self.running.append(request)
        self._tail.append(request)
        tokens[request] = count
        self._register(request, min(request.computed_tokens + count, request.known_tokens))
        return count

    def _admissible(self, request: Request, cap: int, budget: int) -> tuple[int, int] | None:
        """Rules 13 to 16: return the tokens the head of the queue may get and its hit blocks, or None."""
        config, pool = self.config, self.pool
        if budget <= 0:
            return None
        known = request.known_tokens
        hit, hit_free = pool.match(request.content, (known - 1) // config.block_size)
        hit_tokens = hit * config.block_size
        count = min(known - hit_tokens, cap)
        if count > budget:
            if not config.enable_chunked_prefill:
                return None
            count = budget
        kept_free = int(config.watermark * pool.num_gpu_blocks) if self.running else 0
        upto = known if config.scheduler_reserve_full_isl else hit_tokens + count
        if self._blocks_for(upto) - hit > pool.num_free - kept_free - hit_free:
            return None
        return count, hit

    def _enter(self, request: Request, count: int, hit: int) -> Admission:
        """Give the head of the queue the blocks it hits, and those for its first tokens."""
        size = self.config.block_size
        resumed = request.status is Status.PREEMPTED  # what is lost is asked before its own blocks bring it back
        lost, taker = (0, -1) if resumed else self.pool.lost(request.content, hit, request.prompt_tokens // size)
        self.pool.use(request.table, request.content, hit)
        request.computed_tokens = hit * size
        blocks = self._blocks_for(request.computed_tokens + count) - hit
        if blocks > 0:
            self.pool.take(request.table, blocks, request.number)
        return Admission(request, request.computed_tokens, resumed, lost, taker)

    def _is_blocked(self) -> bool:
        """Whether nobody can be admitted while the group goes on alone: it takes blocks and frees none."""
        if len(self.running) >= self.config.max_num_seqs:
            return True
        budget = self.config.max_num_batched_tokens - self.group.rows
        return self._admissible(self.waiting[0], self._prefill_cap(), budget) is None

    @staticmethod
    def _has_last_token_in_flight(request: Request) -> bool:
        in_flight = request.in_flight_outputs
        return in_flight > 0 and request.generated_tokens + in_flight >= request.output_tokens

    def _victim(self) -> Request:
        return max(self.running, key=_victim_rank) if self._rank is by_priority else self.running[-1]

    def _unlist(self, request: Request) -> None:
        """Take a request off the running list."""
        self.running.remove(request)
        if request.in_group:
            self._ungroup(request)
        elif request in self._tail:
            self._tail.remove(request)

    def _preempt(self, batch: Batch, request: Request) -> None:
        """Rule 10, of a request that was taken off the running list."""
        self._release(request)
        request.preempted_tokens = request.computed_tokens
        request.computed_tokens = 0
        request.num_preemptions += 1
        request.status = Status.PREEMPTED
        batch.preempted.append(request)
        if self._rank is not None:
            insort(self.waiting, request, key=self._rank)
        else:
            self.waiting.insert(0, request)

    def _leave(self, request: Request) -> None:
        if request.status is Status.RUNNING:
            self._unlist(request)
        else:
            self.waiting.remove(request)
        self._release(request)
        self._end(request)

    def _end(self, request: Request) -> None:
        for part, _ in request.content:
            part.users -= 1
        request.status = Status.FINISHED


def check_integrity(scheduler: ContinuousScheduler) -> None:
    """Raise AssertionError unless references equal what the requests' tables hold, and the pool is sound."""
    scheduler.settle_all()
    scheduler.pool.check_integrity([request.table for request in scheduler.running])
