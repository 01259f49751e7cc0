"""KV memory by reservation: block by block as needed (paged), or one unbroken area a request, taken when it begins.

    paged           blocks as tokens come; the last one is half empty on average
    request         an area for prompt and whole answer: nothing grows, holes of all sizes remain between areas
    max_model_len   an area for the longest request there may be: no holes, and most of each area stays empty

Areas hold no shared prefix: nothing is hit. Who waits, waits until the first hole is large enough.
"""

from sim.kv.block_pool import BlockPool
from sim.kv.contiguous_memory import ContiguousMemory
from sim.scheduling.batch import Admission, Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.request import Request, Status
from sim.scheduling.walked import WalkedScheduler
from sim.scheduling.waste import Waste

PAGED, BY_REQUEST, BY_MAX_MODEL_LEN = KV_RESERVATIONS = ("paged", "request", "max_model_len")


class ReservingScheduler(WalkedScheduler):
    """Knows what each running request has reserved; the pool's blocks are taken along, so that its usage tells."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(config, pool)
        self.waste = self.wasted = Waste()  # the same, where it is known to be there
        self.memory = ContiguousMemory(pool.usable_blocks * config.block_size)
        self._areas: dict[Request, int] = {}  # start of each request's area

    def can_ever_fit(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether an empty memory has room for what the request reserves."""
        fits = super().can_ever_fit(prompt_tokens, output_tokens)
        return fits and self._area_tokens(prompt_tokens + output_tokens) <= self.memory.total_tokens

    def schedule(self) -> Batch:
        """Decide the next batch, and count what it wastes."""
        batch = super().schedule()
        if not batch.is_empty:
            self._count_waste(batch)
        return batch

    def _count_waste(self, batch: Batch) -> None:
        waste, pool, size = self.wasted, self.pool, self.config.block_size
        waste.computed_rows += sum(entry.tokens for entry in batch.scheduled)
        waste.reserved_tokens += (pool.usable_blocks - pool.num_free) * size
        shared = self.shared_kv_tokens()
        waste.filled_tokens += sum(request.computed_tokens for request in self.running) - shared
        waste.total_tokens += pool.usable_blocks * size
        if self.waiting and not self._is_paged:
            wanted = self._area_tokens(self.waiting[0].prompt_tokens + self.waiting[0].output_tokens)
            if self.memory.largest_hole_tokens < wanted <= self.memory.free_tokens:
                waste.unusable_tokens += self.memory.free_tokens

    @property
    def _is_paged(self) -> bool:
        return self.config.kv_reservation == PAGED

    def _area_tokens(self, tokens: int) -> int:
        """Return what a request of so many tokens reserves, in whole blocks."""
        if self.config.kv_reservation == BY_MAX_MODEL_LEN:
            tokens = max(tokens, self.config.max_model_len)
        return self._blocks_for(tokens) * self.config.block_size

    def _admissible(self, request: Request, cap: int, budget: int) -> tuple[int, int] | None:
        if self._is_paged:
            return super()._admissible(request, cap, budget)
        wanted = self._area_tokens(request.prompt_tokens + request.output_tokens)
        if budget <= 0 or self.memory.largest_hole_tokens < wanted:
            return None
        return min(request.known_tokens, cap, budget), 0

    def _enter(self, request: Request, count: int, hit: int) -> Admission:
        if self._is_paged:
            return super()._enter(request, count, hit)
        wanted = self._area_tokens(request.prompt_tokens + request.output_tokens)
        start = self.memory.take(wanted)
        assert start is not None, "admitted without room"
        self._areas[request] = start
        self.pool.take(request.table, self._blocks_for(wanted), request.number)
        return Admission(request, 0, request.status is Status.PREEMPTED, 0, -1)

    def _register(self, request: Request, tokens_with_kv: int) -> None:
        if self._is_paged:
            super()._register(request, tokens_with_kv)

    def _release(self, request: Request) -> None:
        if request in self._areas:
            self.memory.give_back(self._areas.pop(request))
        super()._release(request)
