"""A server's start command, read: the settings that touch memory, under vLLM's flag names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Engine = Literal["vllm", "sglang"]


@dataclass(frozen=True, slots=True)
class Speculative:
    """Speculative decoding. SGLang counts the drafted tree: `num_draft_tokens` is it with its root."""

    method: str | None = None
    model: str | None = None  # the draft model
    num_speculative_tokens: int | None = None  # drafted for each step; of SGLang's numbers, the nearest to it
    draft_tensor_parallel_size: int | None = None
    max_model_len: int | None = None
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    num_steps: int | None = None
    eagle_topk: int | None = None
    num_draft_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeCommand:
    """What a start command says; None is what it leaves open. Sizes of ranks and batches are as given.

    `ignored` names the flags that leave memory as it is, `notes` has what the user should know. A setting that only
    SGLang has keeps SGLang's name. `cpu_offload_gb` and `swap_space` are in GiB; bytes and tokens as named.
    """

    engine: Engine
    engine_version: str | None = None
    model: str | None = None
    tokenizer: str | None = None
    revision: str | None = None
    hf_config_path: str | None = None
    hf_overrides: Mapping[str, Any] | None = None
    dtype: str | None = None
    quantization: str | None = None
    load_format: str | None = None
    max_model_len: int | Literal["auto"] | None = None  # auto: what the memory allows
    disable_sliding_window: bool | None = None

    max_num_batched_tokens: int | None = None  # SGLang: chunked_prefill_size
    max_prefill_tokens: int | None = None  # SGLang
    max_num_seqs: int | None = None  # SGLang: max_running_requests, of all attention-parallel ranks together
    performance_mode: str | None = None
    enable_chunked_prefill: bool | None = None
    async_scheduling: bool | None = None
    scheduler_reserve_full_isl: bool | None = None

    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None  # SGLang: of the memory free at start, for weights and pools
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    max_total_tokens: int | None = None  # SGLang: at most so many tokens of KV
    block_size: int | None = None  # SGLang: page_size
    kv_cache_dtype: str | None = None
    kv_cache_dtype_skip_layers: tuple[str, ...] | None = None
    calculate_kv_scales: bool | None = None
    enable_prefix_caching: bool | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    mamba_block_size: int | None = None
    mamba_cache_mode: str | None = None
    max_mamba_cache_size: int | None = None  # SGLang: slots for states
    mamba_full_memory_ratio: float | None = None  # SGLang: states' share to attention's
    mamba_radix_cache_strategy: str | None = None  # SGLang
    swa_full_tokens_ratio: float | None = None  # SGLang: window tokens to full tokens
    cpu_offload_gb: float | None = None
    swap_space: float | None = None

    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    pp_layer_partition: tuple[int, ...] | None = None  # layers of each stage
    data_parallel_size: int | None = None
    data_parallel_size_local: int | None = None
    attention_data_parallel_size: int | None = None  # SGLang
    enable_dp_attention: bool | None = None  # SGLang
    decode_context_parallel_size: int | None = None
    prefill_context_parallel_size: int | None = None
    enable_expert_parallel: bool | None = None
    expert_parallel_size: int | None = None  # SGLang
    visible_gpus: int | None = None

    enforce_eager: bool | None = None  # SGLang: disable_cuda_graph
    optimization_level: int | None = None
    cudagraph_mode: str | None = None
    cudagraph_capture_sizes: tuple[int, ...] | None = None
    max_cudagraph_capture_size: int | None = None
    estimate_cudagraphs: bool | None = None  # VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
    attention_backend: str | None = None
    kv_cache_layout: str | None = None
    disable_mla: bool | None = None
    use_v1: bool | None = None
    allow_long_max_model_len: bool | None = None
    allow_hybrid_chunked_local: bool | None = None
    flashinfer_workspace_bytes: int | None = None
    fused_moe_chunk_tokens: int | None = None

    speculative: Speculative | None = None
    limit_mm_per_prompt: Mapping[str, int] | None = None
    language_model_only: bool | None = None
    skip_mm_profiling: bool | None = None
    mm_encoder_tp_mode: str | None = None
    enable_lora: bool | None = None
    max_loras: int | None = None
    max_lora_rank: int | None = None
    lora_dtype: str | None = None
    fully_sharded_loras: bool | None = None

    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
