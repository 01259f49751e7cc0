"""What a start-up log says, as plain facts: None where it does not say.

Bytes and tokens are per rank. Where ranks differ, the smallest is what can be used: every rank holds a shard of
every request.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sim.startup_log.fields import Setting

DEFAULT_BLOCK_SIZE = 16  # tokens; vLLM's own on GPUs, where a log prints no other


@dataclass(frozen=True, slots=True)
class RankFacts:
    """What one process printed. Sizes in bytes; those read off free memory may be negative."""

    rank: str  # the process as the log names it, empty where it does not
    total_bytes: int | None = None
    free_at_start_bytes: int | None = None
    used_at_start_bytes: int | None = None
    used_after_profile_bytes: int | None = None
    utilisation: float | None = None
    budget_bytes: int | None = None
    weights_bytes: int | None = None
    weights_and_non_torch_bytes: int | None = None
    peak_torch_bytes: int | None = None  # weights included
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    graph_estimate_bytes: int | None = None
    graph_bytes: int | None = None
    printed_non_kv_bytes: int | None = None
    kv_bytes: int | None = None
    kv_to_fit_bytes: int | None = None  # vLLM's own suggestions for --kv-cache-memory-bytes
    kv_to_fill_bytes: int | None = None
    tokens: int | None = None
    num_gpu_blocks: int | None = None
    num_cpu_blocks: int | None = None
    max_concurrency: float | None = None
    # SGLang's: memory free at each step, and its pools
    free_before_load_bytes: int | None = None
    free_after_load_bytes: int | None = None
    free_after_pool_bytes: int | None = None
    free_before_graphs_bytes: int | None = None
    free_after_graphs_bytes: int | None = None
    free_when_ready_bytes: int | None = None
    k_bytes: int | None = None
    v_bytes: int | None = None
    window_tokens: int | None = None
    full_tokens: int | None = None
    state_slots: int | None = None
    conv_state_bytes: int | None = None
    ssm_state_bytes: int | None = None
    intermediate_ssm_bytes: int | None = None
    intermediate_conv_bytes: int | None = None
    draft_weights_bytes: int | None = None
    draft_kv_bytes: int | None = None

    @property
    def asked_bytes(self) -> int | None:
        """Utilisation x total memory: as printed, within the two decimals of a GiB, or the product."""
        if self.budget_bytes is None and self.utilisation is not None and self.total_bytes is not None:
            return round(self.utilisation * self.total_bytes)
        return self.budget_bytes

    @property
    def non_kv_bytes(self) -> int | None:
        """What the budget holds besides KV; None where the log lacks the total or the KV bytes."""
        if self.asked_bytes is None or self.kv_bytes is None:
            return self.printed_non_kv_bytes
        return self.asked_bytes - self.kv_bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the engine did not start, with the numbers it gave."""

    reason: str
    line: str  # as the engine printed it, shortened
    line_number: int
    max_model_len: int | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None
    capacity_tokens: int | None = None
    estimated_max_model_len: int | None = None
    free_bytes: int | None = None  # at start, and what gpu_memory_utilization asked for
    asked_bytes: int | None = None
    max_num_seqs: int | None = None
    state_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class StartupFacts:
    """One start of an engine."""

    place: str
    engine: str | None = None  # vllm or sglang
    engine_version: str | None = None
    scheduler: str | None = None  # V0 or V1, of vLLM
    model: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    context_parallel_size: int | None = None  # the printed tokens are multiplied by
    enforce_eager: bool | None = None
    enable_prefix_caching: bool | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None  # SGLang's
    utilisation_without_graphs: float | None = None  # the same KV before graphs were charged
    utilisation_for_the_old_kv: float | None = None
    num_gpu_blocks_override: int | None = None  # only where the user set it
    gpu_name: str | None = None
    engine_config: Mapping[str, Setting] = field(default_factory=dict)  # as the engine resolved it
    user_args: Mapping[str, Setting] = field(default_factory=dict)  # as the user gave it
    attention_block_size: int | None = None
    mamba_page_padding_percent: float | None = None
    padding_layers: tuple[tuple[int, float], ...] = ()  # layers added to a group, and the most they waste in per cent
    mamba_blocks: int | None = None
    auto_fit_from_tokens: int | None = None
    auto_fit_to_tokens: int | None = None
    max_prefill_tokens: int | None = None
    chunked_prefill_size: int | None = None
    capped_running_requests: int | None = None
    ranks: tuple[RankFacts, ...] = ()
    refusal: Refusal | None = None
    is_ready: bool = False  # the server said so
    is_cut: bool = False  # the log ends before KV was sized, or within a number
    notes: tuple[str, ...] = ()

    def least(self, quantity: Callable[[RankFacts], int | float | None]) -> int | float | None:
        """Return the smallest of a quantity over the ranks that print it, or None."""
        return min((value for rank in self.ranks if (value := quantity(rank)) is not None), default=None)

    @property
    def refused(self) -> bool:
        """Whether the engine said that it cannot start."""
        return self.refusal is not None

    @property
    def kv_bytes(self) -> int | None:
        """Bytes of KV on the rank with the least."""
        least = self.least(lambda rank: rank.kv_bytes)
        return None if least is None else int(least)

    @property
    def tokens(self) -> int | None:
        """Tokens as printed, the least of all ranks. What they mean depends on version and layout."""
        least = self.least(lambda rank: rank.tokens)
        return None if least is None else int(least)

    @property
    def max_concurrency(self) -> float | None:
        """Requests of max_model_len that fit at once, as printed."""
        return self.least(lambda rank: rank.max_concurrency)

    @property
    def is_hybrid(self) -> bool:
        """Whether the log shows layers that keep other things than every token's K and V."""
        states = self.least(lambda rank: rank.state_slots) or self.least(lambda rank: rank.window_tokens)
        return bool(states or self.attention_block_size or self.padding_layers or self.mamba_blocks)

    @property
    def printed_blocks(self) -> int | None:
        """Blocks as printed or as the user fixed them."""
        printed = self.num_gpu_blocks_override or self.least(lambda rank: rank.num_gpu_blocks)
        return None if printed is None else int(printed)

    @property
    def num_gpu_blocks(self) -> int | None:
        """Blocks as printed or as the user fixed them; else tokens / block_size where nothing speaks against it.

        A log does not show every window: who knows the model's layout goes by `printed_blocks` and `tokens` instead.
        """
        if self.printed_blocks is not None or self.tokens is None or self.is_hybrid or self.engine != "vllm":
            return self.printed_blocks
        tokens_of_a_block = (self.block_size or DEFAULT_BLOCK_SIZE) * (self.context_parallel_size or 1)
        return None if self.tokens % tokens_of_a_block else self.tokens // tokens_of_a_block

    @property
    def tightest_rank(self) -> RankFacts | None:
        """The rank with the least KV."""
        sized = [rank for rank in self.ranks if rank.kv_bytes is not None]
        return min(sized, key=lambda rank: rank.kv_bytes or 0, default=None)

    @property
    def non_kv_bytes(self) -> int | None:
        """What the budget holds besides KV on the rank with the least KV."""
        return None if self.tightest_rank is None else self.tightest_rank.non_kv_bytes
