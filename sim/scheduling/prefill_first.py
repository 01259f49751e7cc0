"""Prefill first, as vLLM V0 scheduled: while a prompt can be admitted, steps hold prompts alone and decodes wait.

Prompts are never cut, so `max_num_batched_tokens` must hold the longest. What it buys is TTFT; what it costs is the gap
that every running request sees whenever somebody arrives.
"""

from dataclasses import replace

from sim.kv.block_pool import BlockPool
from sim.scheduling.batch import Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.request import Request
from sim.scheduling.walked import WalkedScheduler


class PrefillFirst(WalkedScheduler):
    """A step is either a batch of prompts or a batch of decodes."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(replace(config, enable_chunked_prefill=False, long_prefill_token_threshold=0), pool)

    def _schedule_tail(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:
        self._schedule_waiting(batch, tokens, cap, budget)
        if batch.admitted:
            return 0
        super()._schedule_tail(batch, tokens, cap, budget)
        return 0
