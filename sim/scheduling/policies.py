"""Schedulers by name, as `engine.scheduler` in a scenario chooses them."""

from collections.abc import Callable

from sim.kv.block_pool import BlockPool
from sim.scheduling.chunked_prefill import ChunkedPrefill
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.fixed_slots import FixedSlots
from sim.scheduling.growing import Growing
from sim.scheduling.no_kv_cache import NoKvCache
from sim.scheduling.one_at_a_time import OneAtATime
from sim.scheduling.prefill_first import PrefillFirst
from sim.scheduling.priority_quota import PriorityQuota
from sim.scheduling.reserving import GROW
from sim.scheduling.static_batches import StaticBatches
from sim.scheduling.under_pressure import UnderPressure, is_under_pressure

VLLM_V1 = "vllm_v1"
CHUNKED_PREFILL = "chunked_prefill"
SCHEDULERS: dict[str, Callable[[SchedulerConfig, BlockPool], ContinuousScheduler]] = {
    VLLM_V1: ContinuousScheduler,
    "no_kv_cache": NoKvCache,
    "one_at_a_time": OneAtATime,
    "static_batches": StaticBatches,
    "fixed_slots": FixedSlots,
    "prefill_first": PrefillFirst,
    CHUNKED_PREFILL: ChunkedPrefill,
}
RESERVING = ("static_batches", "fixed_slots")  # those that a `kv_reservation` other than paged is for
HEEDING_THRESHOLDS = (VLLM_V1, "one_at_a_time")  # those that a `long_prefill_token_threshold` is for


def scheduler_named(name: str, config: SchedulerConfig, pool: BlockPool) -> ContinuousScheduler:
    """Return a fresh scheduler; quotas and remedies of memory pressure go with vLLM's own, growing with fixed slots."""
    if name == VLLM_V1 and config.policy == "priority_quota":
        return PriorityQuota(config, pool)
    if name == VLLM_V1 and is_under_pressure(config):
        return UnderPressure(config, pool)
    if config.kv_reservation == GROW:
        return Growing(config, pool)
    return SCHEDULERS[name](config, pool)
