"""Continuous batching over several groups of layers, as vLLM V1 does it for hybrid models (0.32.0).

The rules are those of continuous.py; only what a request's blocks are differs. A model with recurrent layers also cuts
prompts where its states are kept. Every request is walked one by one: no decode group, so `quiet_steps` is always 0.
Not modelled: hits inside a block of states, drafts' block that is dropped from a hit, states saved within a chunk.
"""

from collections.abc import Sequence
from dataclasses import replace

from sim.kv.content import Content
from sim.kv.group_blocks import GroupRules
from sim.kv.group_cache import GroupCache, Holding, hit_lengths
from sim.kv.group_pool import GroupPool
from sim.memory.kv_groups import Keeps, KvGroup
from sim.scheduling.batch import Admission, Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.request import Request, Status


def needs_groups(groups: Sequence[KvGroup]) -> bool:
    """Whether it takes this scheduler: not where all layers keep every token in one group."""
    return len(groups) > 1 or any(group.keeps is not Keeps.ALL for group in groups)


def hybrid_scheduler(
    config: SchedulerConfig,
    groups: Sequence[KvGroup],
    num_gpu_blocks: int,
    *,
    enable_prefix_caching: bool = True,
    prefix_cache_retention_interval: int | None = 0,
    states_apart: bool = False,
) -> "HybridScheduler":
    """Return a scheduler and its blocks; content is named in units of the returned scheduler's `block_size`.

    The interval is a multiple of the least common multiple of the block sizes, or 0 or None (vLLM insists on it).
    """
    named = groups if enable_prefix_caching else [one for one in groups if one.keeps is not Keeps.STATE] or groups
    unit, hit = hit_lengths(named)
    rules = GroupRules(
        unit,
        hit,
        config.max_model_len,
        config.max_num_batched_tokens,
        2 if config.async_scheduling else 1,
        prefix_cache_retention_interval,
    )
    pool = GroupPool(num_gpu_blocks, enable_prefix_caching=enable_prefix_caching)
    cache = GroupCache(pool, groups, rules, states_apart=states_apart)
    return HybridScheduler(replace(config, block_size=unit), cache)


class HybridScheduler(ContinuousScheduler):
    """The scheduler of a model whose layers keep different things; its unit of content is `config.block_size`."""

    def __init__(self, config: SchedulerConfig, cache: GroupCache) -> None:
        super().__init__(config, cache.pool)
        self.cache = cache
        self._holdings: dict[Request, Holding] = {}
        threshold = config.long_prefill_token_threshold
        self._most_in_chunk = min(config.max_num_batched_tokens, threshold or config.max_num_batched_tokens)

    def schedule(self) -> Batch:
        """Decide the next batch and advance its requests' computed tokens."""
        self.cache.new_step()
        batch = super().schedule()
        for entry in batch.scheduled:
            self._holdings[entry.request].in_flight_tokens += entry.tokens
        return batch

    def process(self, batch: Batch) -> list[Request]:
        """Take in the tokens a batch sampled; return the requests that finished, their blocks freed."""
        for entry in batch.scheduled:
            holding = self._holdings.get(entry.request)
            if holding is not None:
                holding.in_flight_tokens -= entry.tokens
        return super().process(batch)

    def warm(self, content: Content) -> None:
        """Cache a prefix as earlier requests would have left it, as far as the pool reaches."""
        self.cache.warm(content)

    def shared_kv_tokens(self) -> int:
        """Return the tokens shared in groups that keep all, each counted once for each further request."""
        return self.cache.shared_kv_tokens()

    def holding_of(self, request: Request) -> Holding | None:
        """Return what a request holds, once it was looked at."""
        return self._holdings.get(request)

    def check_blocks(self) -> None:
        """Raise AssertionError unless blocks and tables agree."""
        self.cache.check_integrity(list(self._holdings.values()))

    def _admissible(self, request: Request, cap: int, budget: int) -> tuple[int, int] | None:
        """Rules 13 to 16 in all groups: return the tokens the head of the queue may get and its hit, or None."""
        config, cache = self.config, self.cache
        if budget <= 0:
            return None
        holding = self._holdings.get(request)
        if holding is None:
            holding = self._holdings[request] = cache.holding(request.content, request.prompt_tokens)
        known = request.known_tokens
        hit = cache.match(holding, known - 1)
        count = min(known - hit, cap)
        if count > budget:
            if not config.enable_chunked_prefill:
                return None
            count = budget
        count = self._chunk(request, hit, count)
        if not count or cache.must_wait(holding, hit):
            return None
        kept_free = int(config.watermark * self.pool.num_gpu_blocks) if self.running else 0
        spare = self.pool.num_free - kept_free
        rows = cache.hit_rows(holding, hit)
        if config.scheduler_reserve_full_isl and cache.entry_blocks(rows, known, capped=True) > spare:
            return None
        if cache.entry_blocks(rows, hit + count, capped=False) > spare:
            return None
        return count, hit // config.block_size

    def _enter(self, request: Request, count: int, hit: int) -> Admission:
        holding, tokens = self._holdings[request], hit * self.config.block_size
        resumed = request.status is Status.PREEMPTED
        lost, taker = (0, -1) if resumed else self.cache.lost(holding, tokens)
        self.cache.enter(holding, self.cache.hit_rows(holding, tokens), tokens, tokens + count, request.number)
        request.computed_tokens = tokens
        return Admission(request, tokens, resumed, lost, taker)

    def _chunk(self, request: Request, start: int, count: int) -> int:
        states = self.cache.states
        if not states or not self.pool.enable_prefix_caching:
            return count
        known = request.known_tokens
        limits = max(request.prompt_tokens, known - 1), known, self._most_in_chunk
        return states[0].chunk(start, count, limits, self._holdings[request].junction)

    def _missing(self, request: Request, tokens: int) -> int:
        holding = self._holdings[request]
        if tokens <= holding.quiet_until:
            return 0
        self.cache.retire(holding, request.computed_tokens - holding.in_flight_tokens)
        return self.cache.missing(holding, tokens)

    def _take(self, request: Request, tokens: int, missing: int) -> None:  # noqa: ARG002
        self.cache.take(self._holdings[request], tokens, request.number)

    def _register(self, request: Request, tokens_with_kv: int) -> None:
        holding = self._holdings[request]
        if tokens_with_kv > holding.quiet_until:
            self.cache.register(holding, tokens_with_kv)
            self.cache.look_ahead(holding)

    def _release(self, request: Request) -> None:
        holding = self._holdings.get(request)
        if holding is not None:
            self.cache.release(holding)

    def _end(self, request: Request) -> None:
        self._holdings.pop(request, None)
        super()._end(request)

    def _most_blocks(self, tokens: int) -> int:
        return self.cache.most_blocks(tokens)
