"""The engine flags that scheduling goes by."""

from dataclasses import dataclass


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
    kv_reservation: str = "paged"  # or max_model_len, request: contiguous.py
