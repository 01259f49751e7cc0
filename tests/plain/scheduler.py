"""The reference of `sim.scheduling.continuous`: the same rules, every request walked one by one in every step.

No decode group, nothing put off: a request's fields say at any time how far it is. Rule numbers refer to the recorded
decisions' README.
"""

from bisect import insort
from dataclasses import dataclass, field
from typing import NamedTuple

from plain.block_pool import BlockPool
from plain.request import Request

from sim.scheduling.continuous import SchedulerConfig
from sim.scheduling.request import Status


class Scheduled(NamedTuple):
    """One request's share of a batch."""

    request: Request
    tokens: int
    computed_before: int  # tokens of it that already have KV
    samples: bool  # reaches the end of what is known, so it yields a token


class Admission(NamedTuple):
    """A request that entered the running list in this step."""

    request: Request
    hit_tokens: int
    resumed: bool
    lost_blocks: int  # of its prompt: cached once and not now; of a resumed one not looked up
    lost_to: int  # the number of whoever took the first of them, or -1


@dataclass(slots=True)
class Batch:
    """What one `schedule` call decided."""

    scheduled: list[Scheduled] = field(default_factory=list)
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    evicted_blocks: int = 0


def _victim_rank(request: Request) -> tuple[int, float]:
    return request.priority, request.arrival


def _queue_rank(request: Request) -> tuple[int, float, str]:
    return request.priority, request.arrival, request.id


class ContinuousScheduler:
    """Waiting queue, running list and block pool; rule numbers refer to the recorded decisions' README."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        self.config = config
        self.pool = pool
        self.waiting: list[Request] = []  # next in line first
        self.running: list[Request] = []  # in order of admission

    @property
    def has_requests(self) -> bool:
        """Whether anything is waiting or running."""
        return bool(self.waiting or self.running)

    def can_ever_fit(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether the request, its output included, fits an otherwise empty pool and max_model_len.

        With chunked prefill off it must fit one step's budget too: once preempted, it comes back whole.
        """
        last_with_kv = prompt_tokens + output_tokens - 1
        blocks = self._blocks_for(last_with_kv)
        in_one_step = self.config.enable_chunked_prefill or last_with_kv <= self.config.max_num_batched_tokens
        fits = blocks <= self.pool.usable_blocks and in_one_step
        return fits and prompt_tokens < self.config.max_model_len

    def add(self, request: Request) -> None:
        """Put a new request in line."""
        if self.config.policy == "priority":
            insort(self.waiting, request, key=_queue_rank)
        else:
            self.waiting.append(request)

    def schedule(self) -> Batch:
        """Decide the next batch and advance its requests' computed tokens."""
        batch = Batch()
        evicted_before = self.pool.num_evicted
        cap = self._prefill_cap()
        tokens: dict[Request, int] = {}
        budget = self._schedule_running(batch, tokens, cap, self.config.max_num_batched_tokens)
        if not batch.preempted:
            self._schedule_waiting(batch, tokens, cap, budget)
        for request, count in tokens.items():
            before = request.computed_tokens
            request.computed_tokens = before + count
            samples = request.computed_tokens >= request.known_tokens + request.in_flight_outputs
            request.in_flight_outputs += samples
            batch.scheduled.append(Scheduled(request, count, before, samples))
        batch.evicted_blocks = self.pool.num_evicted - evicted_before
        return batch

    def process(self, batch: Batch) -> list[Request]:
        """Take in the tokens a batch sampled; return the requests that finished, their blocks freed."""
        finished: list[Request] = []
        for request, _, _, samples in batch.scheduled:
            if not samples:
                continue
            request.generated_tokens += 1
            request.in_flight_outputs -= 1
            if self.config.async_scheduling and request.status is Status.RUNNING:
                self._register(request, request.computed_tokens - request.in_flight_outputs)
            if request.generated_tokens >= request.output_tokens:
                self._leave(request)
                finished.append(request)
        return finished

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.config.block_size)

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

    def _schedule_running(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:
        """Rules 6 to 10: in order of admission; short of blocks, preempt until it fits. Return what is left."""
        config = self.config
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            index += 1
            if config.async_scheduling and self._has_last_token_in_flight(request):
                continue
            wanted = request.known_tokens + request.in_flight_outputs - request.computed_tokens
            count = min(wanted, cap, budget, config.max_model_len - 1 - request.computed_tokens)
            if count <= 0:
                continue
            missing = self._blocks_for(request.computed_tokens + count) - request.num_blocks
            while missing > self.pool.num_free:
                victim = self.running[-1] if config.policy != "priority" else max(self.running, key=_victim_rank)
                index -= self.running.index(victim) < index
                budget += tokens.pop(victim, 0)
                self._preempt(victim)
                batch.preempted.append(victim)
                if victim is request:
                    return budget
            if missing > 0:
                self._give_blocks(request, missing)
            tokens[request] = count
            budget -= count
            self._register(request, min(request.computed_tokens + count, request.known_tokens))
        return budget

    def _schedule_waiting(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> None:
        """Rules 11 to 16: strictly head of line; the first that cannot be admitted ends the pass."""
        config = self.config
        pool = self.pool
        while budget > 0 and self.waiting and len(self.running) < config.max_num_seqs:
            request = self.waiting[0]
            known = request.known_tokens
            hit = pool.lookup(request.nodes[: (known - 1) // config.block_size])
            hit_tokens = len(hit) * config.block_size
            count = min(known - hit_tokens, cap)
            if not config.enable_chunked_prefill and count > budget:
                return
            count = min(count, budget)
            kept_free = int(config.watermark * pool.num_gpu_blocks) if self.running else 0
            spare = pool.num_free - kept_free - pool.num_in_queue(hit)
            chunk_blocks = self._blocks_for(hit_tokens + count) - len(hit)
            gate_blocks = self._blocks_for(known) - len(hit) if config.scheduler_reserve_full_isl else chunk_blocks
            if gate_blocks > spare:
                return
            self.waiting.pop(0)
            resumed = request.status is Status.PREEMPTED
            lost = (
                (0, -1) if resumed else pool.lost(request.nodes[len(hit) : request.prompt_tokens // config.block_size])
            )
            pool.touch(hit)
            request.table[: len(hit)] = hit
            request.num_blocks = request.num_registered = len(hit)
            request.computed_tokens = hit_tokens
            if chunk_blocks > 0:
                self._give_blocks(request, chunk_blocks)
            batch.admitted.append(Admission(request, hit_tokens, resumed, *lost))
            request.status = Status.RUNNING
            self.running.append(request)
            tokens[request] = count
            budget -= count
            self._register(request, min(hit_tokens + count, known))

    def _has_last_token_in_flight(self, request: Request) -> bool:
        in_flight = request.in_flight_outputs
        return in_flight > 0 and request.generated_tokens + in_flight >= request.output_tokens

    def _give_blocks(self, request: Request, count: int) -> None:
        first = request.num_blocks
        request.table[first : first + count] = self.pool.take(count, request.number)
        request.num_blocks = first + count

    def _register(self, request: Request, tokens_with_kv: int) -> None:
        full = tokens_with_kv // self.config.block_size
        first = request.num_registered
        if full > first:
            self.pool.register(request.table[first:full], request.nodes[first:full])
            request.num_registered = full

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._drop_blocks(request)
        request.preempted_tokens = request.computed_tokens
        request.computed_tokens = 0
        request.num_preemptions += 1
        request.status = Status.PREEMPTED
        if self.config.policy == "priority":
            insort(self.waiting, request, key=_queue_rank)
        else:
            self.waiting.insert(0, request)

    def _leave(self, request: Request) -> None:
        (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
        self._drop_blocks(request)
        request.status = Status.FINISHED

    def _drop_blocks(self, request: Request) -> None:
        if request.num_blocks:
            self.pool.release(request.blocks)
        request.num_blocks = request.num_registered = 0
