"""The engine's memory settings, under vLLM's own flag names, and what they default to on a GPU."""

from dataclasses import dataclass, fields

from sim.catalog import Gpu, Model
from sim.catalog.layers import AttentionKv, IndexerKv, RecurrentState
from sim.errors import MemoryLedgerError, one_of
from sim.memory.versions import (
    NEWEST_KNOWN_VLLM,
    caches_hybrid_prefixes,
    default_gpu_memory_utilization,
    graphs_reduce_kv,
    has_chunk_groups,
    has_hybrid_groups,
    is_v0,
    parse_version,
    steps_in_flight,
)
from sim.units import GIB

# Upper bounds are only there to catch a slip of the keyboard before it becomes a table of nonsense.
_MOST = {
    "max_model_len": 10**8,
    "max_num_batched_tokens": 10**8,
    "max_num_seqs": 10**6,
    "block_size": 2**16,
    "tensor_parallel_size": 1024,
    "pipeline_parallel_size": 1024,
    "data_parallel_size": 4096,
    "decode_context_parallel_size": 1024,
    "prefill_context_parallel_size": 1024,
    "num_speculative_tokens": 1024,
    "max_loras": 10**5,
    "max_lora_rank": 4096,
    "num_gpu_blocks_override": 10**9,
    "kv_cache_tokens": 10**12,
    "kv_cache_memory_bytes": 10**14,
    "non_kv_bytes": 10**14,
    "free_bytes_at_start": 10**14,
}
AUTO_FIT = -1  # max_model_len: as long as fits
_KV_OVERRIDES = ("kv_cache_tokens", "num_gpu_blocks_override", "kv_cache_memory_bytes", "non_kv_bytes")
_CHOICES = {
    "mamba_ssm_cache_dtype": ("auto", "float32", "float16", "bfloat16"),
    "mamba_cache_mode": ("none", "align", "all"),
}


def has_states(model: Model) -> bool:
    """Whether a model has recurrent layers."""
    return any(isinstance(kind, RecurrentState) for layer in model.kv_layers for kind in layer)


@dataclass(frozen=True, slots=True)
class Measured:
    """What an engine printed of one GPU's memory, in bytes; None where it did not."""

    weight_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    cuda_graph_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What decides how much memory is left for KV. None means the engine's default, or not given.

    Of the four ways to tell the ledger what an engine printed (`kv_cache_tokens`, `num_gpu_blocks_override`,
    `kv_cache_memory_bytes`, `non_kv_bytes`: budget minus KV) at most one may be set. Bytes are per GPU.
    Raises MemoryLedgerError for a value that cannot be.
    """

    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int = 16
    kv_cache_dtype: str = "auto"
    weight_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    pipeline_layers: tuple[int, ...] = ()  # VLLM_PP_LAYER_PARTITION: layers of each stage; empty: equal shares
    data_parallel_size: int = 1  # replicas, each with a KV cache of its own
    decode_context_parallel_size: int = 1  # ranks that share a sequence's tokens, of the tensor-parallel ones
    prefill_context_parallel_size: int = 1  # and ranks of their own
    enable_expert_parallel: bool = False
    enforce_eager: bool = False
    enable_prefix_caching: bool | None = None
    performance_mode: str = "balanced"  # throughput: twice the default batch limits
    enable_chunked_prefill: bool = True
    async_scheduling: bool = True
    num_speculative_tokens: int | None = None
    speculative_method: str | None = None
    draft_model: str | None = None
    mamba_ssm_cache_dtype: str = "auto"
    mamba_cache_mode: str | None = None
    disable_hybrid_kv_cache_manager: bool = False
    allow_hybrid_chunked_local: bool | None = None  # VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE
    disable_sliding_window: bool = False
    language_model_only: bool = False  # no encoder is loaded
    skip_mm_profiling: bool = False  # the profile run leaves encoders out
    estimate_cudagraphs: bool | None = None  # VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS; None: as the version has it
    kv_cache_dtype_skip_layers: tuple[str, ...] = ()  # layer numbers or "sliding_window": these keep 16 bits
    cpu_offload_gb: float = 0.0  # GiB of weights that are kept in host memory
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16
    vllm_version: str = NEWEST_KNOWN_VLLM
    kv_cache_tokens: int | None = None
    num_gpu_blocks_override: int | None = None
    kv_cache_memory_bytes: int | None = None
    non_kv_bytes: int | None = None
    free_bytes_at_start: int | None = None
    measured: Measured | None = None  # goes before the estimates; of models on one pipeline stage

    def __post_init__(self) -> None:
        share = self.gpu_memory_utilization
        if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1):
            raise MemoryLedgerError(f"gpu_memory_utilization {share!r} must be above 0 and at most 1")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "max_model_len" and value == AUTO_FIT:
                continue
            if field.name in _MOST and not (value is None and field.default is None):
                _check_whole(field.name, value, _MOST[field.name])
            if field.name in _CHOICES and value is not None and value not in _CHOICES[field.name]:
                raise MemoryLedgerError(f"{field.name} {one_of(value, _CHOICES[field.name])}")
        parse_version(self.vllm_version)
        given = self._kv_overrides()
        if len(given) > 1:
            raise MemoryLedgerError(f"{' and '.join(given)} each fix the KV memory; give one of them")
        if self.pipeline_layers and len(self.pipeline_layers) != self.pipeline_parallel_size:
            raise MemoryLedgerError(
                f"VLLM_PP_LAYER_PARTITION names {len(self.pipeline_layers)} stages and pipeline_parallel_size is "
                f"{self.pipeline_parallel_size}"
            )

    @property
    def utilization(self) -> float:
        """Share of the GPU's visible memory the engine takes: what was asked for, or the version's default."""
        share = self.gpu_memory_utilization
        return default_gpu_memory_utilization(self.vllm_version) if share is None else share

    @property
    def context_parallel_size(self) -> int:
        """Ranks that share the tokens of a sequence."""
        return self.decode_context_parallel_size * self.prefill_context_parallel_size

    @property
    def draft_tokens(self) -> int:
        """Tokens a draft proposes in a step; 0 without speculative decoding."""
        return self.num_speculative_tokens or 0

    @property
    def kv_override(self) -> str | None:
        """The setting that fixes the KV memory, when one does."""
        given = self._kv_overrides()
        return given[0] if given else None

    @property
    def charges_cuda_graphs(self) -> bool:
        """Whether an estimate of CUDA graphs comes out of the KV memory."""
        asked = self.estimate_cudagraphs
        return graphs_reduce_kv(self.vllm_version) if asked is None else asked

    @property
    def gives_blocks_back(self) -> bool:
        """Whether layers with windows can be charged for their window alone."""
        return not self.disable_sliding_window and has_hybrid_groups(self.vllm_version)

    @property
    def gives_chunks_back(self) -> bool:
        """Whether layers with chunks are, too: not beside a draft, nor in older versions unless told."""
        asked = self.allow_hybrid_chunked_local
        return not self.draft_tokens and (has_chunk_groups(self.vllm_version) if asked is None else asked)

    def kv_type(self, model: Model) -> str:
        """Return the KV type that takes effect: of "auto", the one that the checkpoint brings scales for.

        Sparse MLA has a format of its own for fp8.
        """
        asked = (model.kv_cache_dtype or "auto") if self.kv_cache_dtype == "auto" else self.kv_cache_dtype
        sparse = any(isinstance(kind, IndexerKv) for layer in model.kv_layers for kind in layer)
        return "fp8_ds_mla" if sparse and asked.startswith("fp8") else asked

    def caches_prefixes(self, model: Model) -> bool:
        """Whether prefix caching is on: as asked, else by the version's default for this kind of model."""
        if self.enable_prefix_caching is not None:
            return self.enable_prefix_caching
        return not has_states(model) or caches_hybrid_prefixes(self.vllm_version)

    def state_mode(self, model: Model) -> str:
        """Return vLLM's mamba_cache_mode: with prefix caching "align" unless told, else "none"."""
        if not self.caches_prefixes(model):
            return "none"
        return self.mamba_cache_mode or "align"

    def in_flight_tokens(self, max_num_batched_tokens: int) -> int:
        """Return the tokens a window reserves for beside its own."""
        steps = steps_in_flight(
            self.vllm_version,
            async_scheduling=self.async_scheduling,
            pipeline_parallel_size=self.pipeline_parallel_size,
        )
        return steps * max_num_batched_tokens

    def stages(self, num_hidden_layers: int) -> list[range]:
        """Return the layers of each pipeline stage: as given, or shared out as vLLM does.

        Raises MemoryLedgerError for stages that do not add up or that have no layer.
        """
        count = self.pipeline_parallel_size
        if count > num_hidden_layers:
            raise MemoryLedgerError(f"pipeline_parallel_size {count} is more than the {num_hidden_layers} layers")
        sizes = list(self.pipeline_layers) or _shares(num_hidden_layers, count)
        if sum(sizes) != num_hidden_layers or min(sizes) < 1:
            raise MemoryLedgerError(
                f"VLLM_PP_LAYER_PARTITION {','.join(map(str, sizes))} must add up to the {num_hidden_layers} layers"
            )
        ends = [sum(sizes[: index + 1]) for index in range(count)]
        return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def _kv_overrides(self) -> list[str]:
        return [name for name in _KV_OVERRIDES if getattr(self, name) is not None]


def _shares(layers: int, stages: int) -> list[int]:
    """Return equal shares; a rest goes to the stages before the last, which has the head."""
    each, rest = divmod(layers, stages)
    sizes = [each] * stages
    for index in range(2, rest + 2):
        sizes[-index] += 1
    return sizes


def _check_whole(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        shown = repr(value)
        raise MemoryLedgerError(
            f"{name} {shown if len(shown) < 40 else shown[:40] + '...'} must be a whole number from 1 to {most:,}"
        )


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The engine's limits once defaults are filled in."""

    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int


_BIG, _BIGGER = 70 * GIB, 160 * GIB
_CHUNKED_FROM = 32_768  # tokens: longer models were chunked without being told, up to 0.8


def _shortest_window(model: Model) -> int:
    """Return the shortest window of a model, which attention without windows may not pass; else its own maximum."""
    windows = [
        kind.window_tokens
        for layer in model.kv_layers
        for kind in layer
        if isinstance(kind, AttentionKv) and kind.window_tokens is not None
    ]
    return min(windows, default=model.max_position_embeddings)


def batch_limits(gpu: Gpu, model: Model, settings: MemorySettings) -> BatchLimits:
    """Fill in what the settings leave open, as vLLM's API server does.

    Source: vLLM 0.32; 16,384 tokens and 1,024 sequences from 160 GiB, 8,192 and 1,024 from 70 GiB except on A100, else
    2,048 and 256; a step is never larger than max_num_seqs x max_model_len, nor has it more sequences than tokens;
    without chunked prefill it holds a whole prompt. max_model_len is the model's own maximum. Up to 0.8 a step held a
    whole prompt, unless max_model_len passed 32,768: then 2,048 tokens (prints of issue 10517).

    Raises MemoryLedgerError for a step that is to hold whole prompts and cannot.
    """
    longest = settings.max_model_len or model.max_position_embeddings
    if settings.disable_sliding_window:
        longest = min(longest, _shortest_window(model))
    tokens, sequences = 2_048, 256
    first_engine = is_v0(settings.vllm_version)
    if not first_engine and gpu.usable_bytes >= _BIGGER:
        tokens, sequences = 16_384, 1_024
    elif not first_engine and gpu.usable_bytes >= _BIG and not gpu.name.startswith("A100"):
        tokens, sequences = 8_192, 1_024
    if settings.performance_mode == "throughput":
        tokens, sequences = 2 * tokens, 2 * sequences
    whole = not settings.enable_chunked_prefill or (first_engine and longest <= _CHUNKED_FROM)
    given = settings.max_num_batched_tokens
    if whole and given is not None and given < longest:
        raise MemoryLedgerError(
            f"max_num_batched_tokens {given:,} must be at least max_model_len {longest:,} without chunked prefill"
        )
    if whole:
        tokens = max(longest, tokens) if not first_engine else longest
    sequences = settings.max_num_seqs or sequences
    tokens = given or min(tokens, sequences * longest)
    return BatchLimits(
        max_model_len=longest,
        max_num_batched_tokens=tokens,
        max_num_seqs=settings.max_num_seqs or min(sequences, tokens),
    )
