"""How SGLang sizes its pools: a static share of the GPU for weights and KV, states and KV apart.

    rest  = free after load - (1 - mem_fraction_static) x free before load
    states   max_mamba_cache_size slots, or mamba_full_memory_ratio / (1 + ratio) of the rest
    KV       what is left, in tokens: one pool, or one for windows of swa_full_tokens_ratio as many tokens

Rules from SGLang's own source (0.5.6) and posted logs; `shared/data/capacity_cases`, kind K2, has the cases. A token
pool smaller than the context length is no reason to refuse: the engine starts and rejects what is longer.
"""

from dataclasses import dataclass

from sim.catalog import Gpu, Model, kv_dtype
from sim.catalog.kv_bytes import state_bytes, token_bytes
from sim.catalog.layers import AttentionKv, RecurrentState
from sim.errors import MemoryLedgerError
from sim.memory.drafts import draft_layers, draft_weight_bytes
from sim.memory.kv_layout import check_ranks
from sim.memory.reserves import ByteRange
from sim.memory.settings import MemorySettings
from sim.units import GIB, gib

_MIB = 2**20
_STATES_PER_REQUEST = 3  # slots of one running request where prefixes are cached: its own and two kept
_CONTEXT_BYTES = ByteRange(
    round(0.3 * GIB), round(0.55 * GIB), round(1.0 * GIB)
)  # taken before weights: 78.6 of 79.2 free
_WINDOWS_IN_FULL = ("gpt-oss", "gemma-2", "gemma-3", "olmo")  # SGLang keeps one pool for these


@dataclass(frozen=True, slots=True)
class SglangSettings:
    """Flags of SGLang's own; None means its default. What it shares with vLLM stands in MemorySettings."""

    mem_fraction_static: float | None = None
    max_total_tokens: int | None = None
    cuda_graph_max_bs: int | None = None
    max_mamba_cache_size: int | None = None
    mamba_full_memory_ratio: float = 0.9
    swa_full_tokens_ratio: float = 0.8
    disable_hybrid_swa_memory: bool = False
    disable_radix_cache: bool = False
    enable_dp_attention: bool = False
    free_before_load_bytes: int | None = None  # printed by the engine ("Load weight begin"), a GPU
    free_after_load_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, most in (
            ("mem_fraction_static", 1.0),
            ("mamba_full_memory_ratio", 100.0),
            ("swa_full_tokens_ratio", 1.0),
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                raise MemoryLedgerError(f"{name} {value!r} must be above 0 and at most {most:g}")


@dataclass(frozen=True, slots=True)
class SglangPools:
    """What one GPU holds, in bytes, and what that means for requests."""

    total_visible_bytes: int
    mem_fraction_static: float
    weight_bytes: int
    state_pool_bytes: int
    state_slots: int  # 0 for models without states
    kv_bytes: ByteRange
    bytes_per_token: float
    kv_cache_tokens: ByteRange  # of the pool that keeps every token
    window_tokens: int  # of the pool for windows, 0 where there is none
    max_running_requests: int | None  # where the states limit it
    context_length: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    replicas: int  # data-parallel ranks, each with pools of its own
    refusal: str | None

    @property
    def max_concurrency(self) -> float:
        """Requests of the context length that fit at once. Of one replica."""
        return self.kv_cache_tokens.likely / self.context_length


def sglang_pools(gpu: Gpu, model: Model, settings: MemorySettings, own: SglangSettings) -> SglangPools:
    """Account for the GPU of an SGLang server that holds the fewest tokens; of a pipeline each stage has its layers.

    Raises MemoryLedgerError for an unknown type, and for stages that cannot be.
    """
    check_ranks(model, settings)
    stages = [_stage_pools(gpu, model, settings, own, stage) for stage in settings.stages(model.num_hidden_layers)]
    return min(stages, key=lambda pools: pools.kv_cache_tokens.likely)


def _stage_pools(gpu: Gpu, model: Model, settings: MemorySettings, own: SglangSettings, stage: range) -> SglangPools:
    parallel = settings.tensor_parallel_size
    drafts = stage.stop == model.num_hidden_layers
    attention_parallel = max(1, parallel // settings.data_parallel_size) if own.enable_dp_attention else parallel
    layers = [*model.kv_layers[stage.start : stage.stop], *(draft_layers(model, settings) if drafts else ())]
    dtype = kv_dtype(settings.kv_type(model))
    full = windows = 0.0
    state = 0
    separate = not (own.disable_hybrid_swa_memory or model.name.lower().startswith(_WINDOWS_IN_FULL))
    for layer in layers:
        for kind in layer:
            if isinstance(kind, RecurrentState):
                state += state_bytes(kind, attention_parallel, settings.draft_tokens, settings.mamba_ssm_cache_dtype)
            elif separate and isinstance(kind, AttentionKv) and (kind.window_tokens or kind.chunk_tokens):
                windows += token_bytes(kind, dtype, attention_parallel)
            else:
                full += token_bytes(kind, dtype, attention_parallel)
    if not full:
        full, windows, separate = windows, 0.0, False
    if not full:
        raise MemoryLedgerError(f"{model.name} keeps no KV by token: there is no token pool to size")
    per_token = full + own.swa_full_tokens_ratio * windows
    weights = model.weight_bytes(settings.weight_dtype, parallel, layers=stage)
    weights += draft_weight_bytes(model, settings) if drafts else 0
    weights = max(0, weights - round(settings.cpu_offload_gb * GIB))
    share = own.mem_fraction_static or static_share(gpu.usable_bytes, settings, own)
    before = own.free_before_load_bytes
    if before is not None and own.free_after_load_bytes is not None:
        weights = before - own.free_after_load_bytes
        rests = [rest_bytes(before, weights, share)] * 3
    else:
        rests = [
            rest_bytes(gpu.usable_bytes - taken, weights, share)
            for taken in (_CONTEXT_BYTES.high, _CONTEXT_BYTES.likely, _CONTEXT_BYTES.low)
        ]
    slots = _state_slots(rests[1], state, own)
    kept = [rest - slots * state for rest in rests]
    tokens = [_tokens(rest, per_token, settings, own) for rest in kept]
    if own.max_total_tokens is not None or settings.kv_cache_tokens is not None:
        kept = [round(count * per_token) for count in tokens]
    longest = settings.max_model_len or model.max_position_embeddings
    refusal = None
    if tokens[1] <= 0:
        refusal = (
            f"not enough memory: mem_fraction_static {share:g} leaves {gib(kept[1])} for KV beside {gib(weights)} of "
            "weights; raise mem_fraction_static, quantise the weights or use more GPUs"
        )
    return SglangPools(
        total_visible_bytes=gpu.usable_bytes,
        mem_fraction_static=share,
        weight_bytes=weights,
        state_pool_bytes=slots * state,
        state_slots=slots,
        kv_bytes=ByteRange(*kept),
        bytes_per_token=full,
        kv_cache_tokens=ByteRange(*tokens),
        window_tokens=int(tokens[1] * own.swa_full_tokens_ratio) if windows else 0,
        max_running_requests=_running(slots, own) if state else None,
        context_length=longest,
        replicas=settings.data_parallel_size,
        tensor_parallel_size=parallel,
        pipeline_parallel_size=settings.pipeline_parallel_size,
        refusal=refusal,
    )


def _tokens(rest: int, per_token: float, settings: MemorySettings, own: SglangSettings) -> int:
    """Return the tokens of a pool, in whole pages; a log's own number stands as printed."""
    if settings.kv_cache_tokens is not None:
        return settings.kv_cache_tokens
    tokens = min(max(0, int(rest // per_token)), own.max_total_tokens or 10**15)
    return tokens // settings.block_size * settings.block_size


def rest_bytes(free_before_bytes: int, weight_bytes: int, mem_fraction_static: float) -> int:
    """Return what is left for states and KV."""
    return round(free_before_bytes - weight_bytes - (1 - mem_fraction_static) * free_before_bytes)


def static_share(visible_bytes: int, settings: MemorySettings, own: SglangSettings) -> float:
    """Return mem_fraction_static where it is not given: the GPU less what chunks, graphs and ranks will take."""
    chunk, graphs = _defaults(visible_bytes, settings.tensor_parallel_size)
    chunk = settings.max_num_batched_tokens or chunk
    graphs = own.cuda_graph_max_bs or graphs
    ranks = settings.tensor_parallel_size * settings.pipeline_parallel_size
    reserved_mib = 512 + 1.5 * max(chunk, 2048) + 2 * graphs + ranks / 8 * 1024
    if own.enable_dp_attention:
        reserved_mib += graphs * settings.data_parallel_size * (4.5 if graphs > 300 else 3)
    if visible_bytes > 60 * GIB:
        reserved_mib = max(reserved_mib, 10 * 1024)
    if settings.draft_tokens:
        reserved_mib += 6 * 1024 if settings.speculative_method == "standalone" else 2 * 1024
    return round(1 - reserved_mib * _MIB / visible_bytes, 3)


def _defaults(visible_bytes: int, tensor_parallel_size: int) -> tuple[int, int]:
    """Return chunked_prefill_size and cuda_graph_max_bs by the GPU's memory."""
    few = tensor_parallel_size < 4
    for below_gib, chunk, graphs, graphs_of_many in (
        (20, 2048, 8, 8),
        (35, 2048, 24, 80),
        (60, 4096, 32, 160),
        (160, 8192, 256, 512),
    ):
        if visible_bytes < below_gib * GIB:
            return chunk, graphs if few else graphs_of_many
    return 16_384, 512


def _state_slots(rest: int, state: int, own: SglangSettings) -> int:
    if not state:
        return 0
    if own.max_mamba_cache_size is not None:
        return own.max_mamba_cache_size
    ratio = own.mamba_full_memory_ratio
    return max(0, int((rest * ratio / (1 + ratio) - state) // state))


def _running(slots: int, own: SglangSettings) -> int:
    return slots if own.disable_radix_cache else slots // _STATES_PER_REQUEST
