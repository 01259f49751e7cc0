"""Continuous batching with a fixed number of slots, as iteration-level scheduling began (Orca, OSDI 2022).

Whoever is done leaves at once, and the next in line takes the slot with its whole prompt in the very next step, beside
the others' decodes: no step budget, no chunks. A newcomer needs room for its prompt; a token that finds no block
preempts whoever came last.
"""

from dataclasses import replace

from sim.kv.block_pool import BlockPool
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.reserving import ReservingScheduler

NO_BUDGET = 1 << 30


class FixedSlots(ReservingScheduler):
    """`max_num_seqs` slots."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(replace(config, max_num_batched_tokens=NO_BUDGET, long_prefill_token_threshold=0), pool)
