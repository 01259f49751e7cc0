"""Why an engine would not start, in one line: what it needs, what there is, and what to change."""

from collections.abc import Sequence

from sim.errors import MemoryLedgerError
from sim.memory.rank import RankMemory
from sim.memory.settings import BatchLimits, MemorySettings
from sim.memory.versions import keeps_a_block
from sim.units import gib


def refusal_of(ranks: Sequence[RankMemory], settings: MemorySettings, limits: BatchLimits, longest: int) -> str | None:
    """Return the reason, or None if it starts. `longest` is the largest max_model_len that fits, in tokens."""
    for rank in ranks:
        free = settings.free_bytes_at_start
        if free is not None and free > rank.total_visible_bytes:
            raise MemoryLedgerError(
                f"{gib(free)} cannot be free at start: {rank.gpu} has {gib(rank.total_visible_bytes)}"
            )
        if free is not None and free < rank.budget_bytes:
            return (
                f"only {gib(free)} is free at start, less than the {gib(rank.budget_bytes)} that "
                f"gpu_memory_utilization {settings.utilization:g} asks for; lower it or stop what "
                "else uses the GPU"
            )
    least = min(ranks, key=lambda rank: rank.kv_bytes.likely)
    if least.weight_bytes > least.total_visible_bytes:
        return (
            f"the weights alone are {gib(least.weight_bytes)} a GPU, more than the {gib(least.total_visible_bytes)} it "
            "has: loading runs out of memory; quantise them, or spread them over more GPUs"
        )
    fixed = settings.kv_cache_memory_bytes is not None or settings.num_gpu_blocks_override is not None
    if fixed and settings.measured is None:
        worst = max(ranks, key=lambda rank: rank.weight_range.low + rank.kv_bytes.likely - rank.total_visible_bytes)
        if worst.weight_range.low + worst.kv_bytes.likely > worst.total_visible_bytes:
            return (
                f"out of memory: {settings.kv_override} asks for {gib(worst.kv_bytes.likely)} of KV cache beside "
                f"{gib(worst.weight_bytes)} of weights, and the GPU has {gib(worst.total_visible_bytes)}"
            )
    if longest == 0:
        missing = -least.kv_bytes.likely
        leaves = f"take {gib(missing)} more than" if missing > 0 else f"leave too little, {gib(-missing)}, of"
        return (
            f"no memory for KV blocks: weights, activations and the rest {leaves} the "
            f"{gib(least.budget_bytes)} budget; raise gpu_memory_utilization, quantise the weights, "
            "or lower max_num_seqs and max_num_batched_tokens"
        )
    in_flight = settings.in_flight_tokens(limits.max_num_batched_tokens)
    kept = 1 if keeps_a_block(settings.vllm_version) else 0
    for rank in ranks:
        needed = rank.checked_layout.blocks_for(limits.max_model_len, in_flight)
        if needed <= rank.checked_blocks(kept):
            continue
        of_the_engine = " (one block is the engine's)" if kept else ""
        return (
            f"one request of max_model_len {limits.max_model_len:,} needs "
            f"{gib(needed * rank.checked_layout.block_bytes)} of "
            f"KV cache and {gib(rank.kv_bytes.likely)} is available{of_the_engine}; the largest max_model_len "
            f"that fits is {longest:,}"
        )
    return None
