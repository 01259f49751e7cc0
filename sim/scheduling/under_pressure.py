"""vLLM's scheduler with remedies it does not have: swap (as V0), another victim, a moving batch limit, shedding.

Each remedy is a file: host_space.py, victims.py, batch_limit.py, shedding.py. Here they meet continuous.py's rules.
Swapping moves all of a victim's blocks out, and back in what the prefix cache no longer holds; the step that follows
takes as long as the copy longer.
"""

from sim.kv.block_pool import BlockPool
from sim.scheduling.batch import Admission, Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.host_space import HostSpace
from sim.scheduling.order import by_priority
from sim.scheduling.pressure import Pressure
from sim.scheduling.request import Request, Status
from sim.scheduling.shedding import running_to_shed, waiting_to_shed
from sim.scheduling.victims import LAST_ADMITTED, VICTIMS, victim_of
from sim.scheduling.walked import WalkedScheduler

RECOMPUTE, SWAP = PREEMPTION_MODES = ("recompute", "swap")


def is_under_pressure(config: SchedulerConfig) -> bool:
    """Whether any of the remedies is chosen."""
    return (
        config.preemption_mode != RECOMPUTE
        or config.preemption_victim != LAST_ADMITTED
        or config.batch_limit is not None
        or config.shed_above_kv_usage is not None
    )


class UnderPressure(WalkedScheduler):
    """The remedies that `config` chooses."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(config, pool)
        self.pressure = self.counts = Pressure()  # the same, where it is known to be there
        self.host = HostSpace(config.host_blocks if config.preemption_mode == SWAP else 0)
        self._victim_rank = VICTIMS[config.preemption_victim]
        self._moved_blocks = 0

    def schedule(self) -> Batch:
        """Decide the next batch; it carries the blocks that have moved since the last one."""
        batch = super().schedule()
        if not batch.is_empty:
            batch.moved_blocks = self._moved_blocks
            self._moved_blocks = 0
        return batch

    def process(self, batch: Batch) -> list[Request]:
        """Take in the tokens a batch sampled, then shed; who is dropped goes into `dropped`."""
        finished = super().process(batch)
        mark = self.config.shed_above_kv_usage
        if mark is not None and self.pool.usage > mark:
            self._shed(mark)
        return finished

    def finishes_somebody(self, batch: Batch) -> bool:
        """Whether `process` will return, or drop, a request: known only then where requests are shed."""
        return self.config.shed_above_kv_usage is not None or super().finishes_somebody(batch)

    def _shed(self, mark: float) -> None:
        kept = self.config.shed_priority
        for request in waiting_to_shed(self.waiting, kept):
            self.withdraw(request)
            self.dropped.append(request)
        while self.pool.usage > mark:
            victim = running_to_shed(self.running, kept)
            if victim is None:
                break
            self._unlist(victim)
            self._release(victim)
            self._end(victim)
            self.dropped.append(victim)
        self.counts.shed += len(self.dropped)

    def _take_in(self, request: Request, step: int, finished: list[Request]) -> None:
        if request.status is not Status.FINISHED:  # a token in flight of one that was dropped is nobody's
            super()._take_in(request, step, finished)

    def _admit_head(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:
        limit = self.config.batch_limit
        if limit is not None and len(self.running) >= limit.at(self.pool.usage, self.config.max_num_seqs):
            return 0
        return super()._admit_head(batch, tokens, cap, budget)

    def _victim(self) -> Request:
        if self._victim_rank is None:
            return super()._victim()
        return victim_of(self.running, self._victim_rank, by_priority=self._rank is by_priority)

    def _preempt(self, batch: Batch, request: Request) -> None:
        if self.config.preemption_mode == SWAP:
            blocks = self._blocks_for(request.computed_tokens)
            if self.host.put(request, blocks, request.computed_tokens):
                self._move(blocks)
                self.counts.swapped_blocks += blocks
            else:
                self.counts.recomputed += 1
        super()._preempt(batch, request)

    def _admissible(self, request: Request, cap: int, budget: int) -> tuple[int, int] | None:
        held = self.host.tokens_of(request)
        if not held:
            return super()._admissible(request, cap, budget)
        config, pool = self.config, self.pool
        known = request.known_tokens
        hit, hit_free = pool.match(request.content, (known - 1) // config.block_size)
        start = max(held, hit * config.block_size)
        count = min(known - start, cap)
        if budget <= 0 or (count > budget and not config.enable_chunked_prefill):
            return None
        count = min(count, budget)
        kept_free = int(config.watermark * pool.num_gpu_blocks) if self.running else 0
        upto = known if config.scheduler_reserve_full_isl else start + count
        if self._blocks_for(upto) - hit > pool.num_free - kept_free - hit_free:
            return None
        return count, hit

    def _enter(self, request: Request, count: int, hit: int) -> Admission:
        held = self.host.tokens_of(request)
        if not held:
            return super()._enter(request, count, hit)
        start = max(held, hit * self.config.block_size)
        self.host.drop(request)
        self._move(max(self._blocks_for(held) - hit, 0))
        self.pool.use(request.table, request.content, hit)
        request.computed_tokens = start
        blocks = self._blocks_for(start + count) - hit
        if blocks > 0:
            self.pool.take(request.table, blocks, request.number)
        return Admission(request, start, True, 0, -1)

    def _move(self, blocks: int) -> None:
        self._moved_blocks += blocks

    def _end(self, request: Request) -> None:
        self.host.drop(request)
        super()._end(request)
