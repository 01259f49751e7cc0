"""The engine flags that scheduling goes by."""

from dataclasses import dataclass

from sim.scheduling.batch_limit import BatchLimit


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """vLLM's own flags; `policy` is one of order.RANKS (vLLM has fcfs and priority: a lower value goes first)."""

    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    max_model_len: int = 8192
    block_size: int = 16
    enable_chunked_prefill: bool = True
    policy: str = "fcfs"
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    async_scheduling: bool = False
    # What vLLM does not have; each is read by the one scheduler that is named after it.
    prefill_chunk_tokens: int = 512
    priority_quotas: tuple[tuple[int, int], ...] = ()  # priority, most running
    kv_reservation: str = "paged"  # or max_model_len, request, grow: reserving.py, growing.py
    # Under memory pressure: under_pressure.py
    preemption_mode: str = "recompute"  # or swap, as vLLM V0 had it
    host_blocks: int = 0  # of swap
    preemption_victim: str = "last_admitted"  # of victims.VICTIMS
    batch_limit: BatchLimit | None = None
    shed_above_kv_usage: float | None = None
    shed_priority: int = 1  # this class and those below it may be shed
