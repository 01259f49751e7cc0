"""vLLM's flags that touch memory, by setting. Source: arg_utils.py of vLLM 0.6.6 to 0.33.0.

A flag that one version has and another lacks is here too: which version accepts what is the engine's business.
"""

from sim.serve_command.flags import Flag, FlagTable
from sim.serve_command.values import (
    JSON_OBJECT,
    PER_PROMPT,
    SCALED,
    SCALED_OR_AUTO,
    SHARE,
    SWITCH,
    WHOLES,
    WORD,
    WORDS,
    Kind,
    Takes,
    choice,
    number,
    whole,
)
from sim.serve_command.vllm_ignored import IGNORED, NOTED

DTYPE = choice("auto", "half", "float16", "bfloat16", "float", "float32")
STATE_DTYPE = choice("auto", "float32", "float16", "bfloat16")
KV_CACHE_DTYPES = (
    "auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2 fp8_inc fp8_ds_mla nvfp4_ds_mla fp8_per_token_head "
    "int8 int8_per_token_head int4_per_token_head nvfp4 nvfp4_4over6 ultraquant_4bit "
    "turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc "
    "octave_k3v4 octave_k3v3 octave_k3v3_compact "
    "bf16 fp16 fp32 tq4"  # the catalog's own names, which no vLLM takes
)
KV_CACHE_DTYPE = choice(*KV_CACHE_DTYPES.split())
CUDAGRAPH_MODE = choice("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
RANKS = whole(1, 4096)


def _flag(names: str, kind: Kind, target: str) -> Flag:
    return Flag(tuple(names.split()), kind, target)


def _keys(settings: dict[str, tuple[Kind, str]], ignored: str) -> dict[str, Flag]:
    keys = {key: Flag((key,), kind, target) for key, (kind, target) in settings.items()}
    return keys | {key: Flag((key,), WORD) for key in ignored.split()}


def _old_switch(mode: str, *, when: bool) -> Kind:
    """Return the kind of a truth value that older versions had in place of the graph mode."""
    return Kind(Takes.ONE, lambda text: mode if (text == "true") is when else None)


SPECULATIVE_KEYS = _keys(
    {
        "method": (WORD, "speculative.method"),
        "model": (WORD, "speculative.model"),
        "num_speculative_tokens": (whole(1, 1000), "speculative.num_speculative_tokens"),
        "draft_tensor_parallel_size": (RANKS, "speculative.draft_tensor_parallel_size"),
        "max_model_len": (whole(1, 10**9), "speculative.max_model_len"),
        "kv_cache_dtype": (KV_CACHE_DTYPE, "speculative.kv_cache_dtype"),
        "quantization": (WORD, "speculative.quantization"),
    },
    "enforce_eager tensor_parallel_size moe_backend attention_backend revision code_revision parallel_drafting "
    "index_share_for_mtp_iteration disable_padded_drafter_batch disable_eagle_block_drop prompt_lookup_max "
    "prompt_lookup_min disable_lookahead_block_hashes draft_lm_head_quantization use_local_argmax_reduction "
    "use_heterogeneous_vocab num_speculative_tokens_per_batch_size suffix_decoding_max_tree_depth "
    "suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor suffix_decoding_min_token_prob "
    "draft_load_config rejection_sample_method synthetic_acceptance_rates synthetic_acceptance_length "
    "enable_adaptive_verification draft_sample_method dspark_draft_topk xpress_topc fly_window_size "
    "fly_entropy_threshold fly_entropy_top_k acceptance_method disable_logprobs disable_by_batch_size "
    "disable_mqa_scorer posterior_threshold posterior_alpha num_lookahead_slots speculative_token_tree",
)
COMPILATION_KEYS = _keys(
    {
        "cudagraph_mode": (CUDAGRAPH_MODE, "cudagraph_mode"),
        "cudagraph_capture_sizes": (WHOLES, "cudagraph_capture_sizes"),
        "max_cudagraph_capture_size": (whole(0, 10**6), "max_cudagraph_capture_size"),
        "max_capture_size": (whole(0, 10**6), "max_cudagraph_capture_size"),
        "use_cudagraph": (_old_switch("NONE", when=False), "cudagraph_mode"),
        "full_cuda_graph": (_old_switch("FULL", when=True), "cudagraph_mode"),
    },
    "level mode debug_dump_path cache_dir compile_cache_save_format backend custom_ops ir_enable_torch_wrap "
    "splitting_ops compile_mm_encoder cudagraph_mm_encoder encoder_cudagraph_token_budgets use_inductor "
    "encoder_cudagraph_max_vision_items_per_batch encoder_cudagraph_max_frames_per_batch cudagraph_decoder_replay "
    "decoder_replay_cudagraph_capture_sizes decoder_replay_trim_threshold compile_sizes compile_ranges_endpoints "
    "compile_ranges_split_points inductor_compile_config inductor_passes cudagraph_num_of_warmups "
    "cudagraph_copy_inputs cudagraph_specialize_lora use_inductor_graph_partition pass_config "
    "dynamic_shapes_config fast_moe_cold_start enabled_custom_ops local_cache_dir",
)
ATTENTION_KEYS = _keys(
    {"backend": (WORD, "attention_backend")},
    "flash_attn_version use_prefill_decode_attention flash_attn_max_num_splits_for_cuda_graph "
    "use_cudnn_prefill use_trtllm_ragged_deepseek_prefill use_trtllm_attention disable_flashinfer_prefill "
    "disable_flashinfer_q_quantization mla_prefill_backend use_prefill_query_quantization",
)


def _compilation(text: str) -> dict[str, object]:
    """Older versions take the bare level in place of the JSON."""
    return {"level": int(text)} if text in {"0", "1", "2", "3"} else JSON_OBJECT.read(text)


MEMORY_FLAGS = (
    # the model
    _flag("--model", WORD, "model"),
    _flag("--tokenizer", WORD, "tokenizer"),
    _flag("--revision", WORD, "revision"),
    _flag("--hf-config-path", WORD, "hf_config_path"),
    _flag("--hf-overrides", JSON_OBJECT, "hf_overrides"),
    _flag("--rope-scaling", JSON_OBJECT, "hf_overrides.rope_scaling"),
    _flag("--rope-theta", number(0, 1e12, above=True), "hf_overrides.rope_theta"),
    _flag("--dtype", DTYPE, "dtype"),
    _flag("--quantization -q", WORD, "quantization"),
    _flag("--load-format", WORD, "load_format"),
    _flag("--max-model-len", SCALED_OR_AUTO, "max_model_len"),
    _flag("--disable-sliding-window", SWITCH, "disable_sliding_window"),
    # the batch
    _flag("--max-num-batched-tokens", SCALED, "max_num_batched_tokens"),
    _flag("--max-num-seqs", whole(1, 10**7), "max_num_seqs"),
    _flag("--performance-mode", choice("balanced", "interactivity", "throughput"), "performance_mode"),
    _flag("--enable-chunked-prefill", SWITCH, "enable_chunked_prefill"),
    _flag("--async-scheduling", SWITCH, "async_scheduling"),
    _flag("--scheduler-reserve-full-isl", SWITCH, "scheduler_reserve_full_isl"),
    # the KV cache
    _flag("--gpu-memory-utilization --device-memory-utilization", SHARE, "gpu_memory_utilization"),
    _flag("--kv-cache-memory-bytes --kv-cache-memory", SCALED, "kv_cache_memory_bytes"),
    _flag("--num-gpu-blocks-override", whole(1, 10**9), "num_gpu_blocks_override"),
    _flag("--block-size", whole(1, 2**16), "block_size"),
    _flag("--kv-cache-dtype", KV_CACHE_DTYPE, "kv_cache_dtype"),
    _flag("--kv-cache-dtype-skip-layers", WORDS, "kv_cache_dtype_skip_layers"),
    _flag("--calculate-kv-scales", SWITCH, "calculate_kv_scales"),
    _flag("--enable-prefix-caching", SWITCH, "enable_prefix_caching"),
    _flag("--disable-hybrid-kv-cache-manager", SWITCH, "disable_hybrid_kv_cache_manager"),
    _flag("--mamba-cache-dtype", STATE_DTYPE, "mamba_cache_dtype"),
    _flag("--mamba-ssm-cache-dtype", STATE_DTYPE, "mamba_ssm_cache_dtype"),
    _flag("--mamba-block-size", whole(1, 2**24), "mamba_block_size"),
    _flag("--mamba-cache-mode", choice("none", "align", "all"), "mamba_cache_mode"),
    _flag("--cpu-offload-gb", number(), "cpu_offload_gb"),
    _flag("--swap-space", number(), "swap_space"),
    # the ranks
    _flag("--tensor-parallel-size -tp", RANKS, "tensor_parallel_size"),
    _flag("--pipeline-parallel-size -pp", RANKS, "pipeline_parallel_size"),
    _flag("--data-parallel-size -dp", RANKS, "data_parallel_size"),
    _flag("--data-parallel-size-local -dpl", whole(0, 4096), "data_parallel_size_local"),
    _flag("--decode-context-parallel-size -dcp", RANKS, "decode_context_parallel_size"),
    _flag("--prefill-context-parallel-size -pcp", RANKS, "prefill_context_parallel_size"),
    _flag("--enable-expert-parallel -ep", SWITCH, "enable_expert_parallel"),
    _flag("--device-ids", WORD, "device_ids"),
    # graphs and kernels
    _flag("--enforce-eager", SWITCH, "enforce_eager"),
    _flag("--optimization-level", whole(0, 3), "optimization_level"),
    _flag("--cudagraph-capture-sizes", WHOLES, "cudagraph_capture_sizes"),
    _flag("--cuda-graph-sizes", WHOLES, "cuda_graph_sizes"),  # one number: the largest size
    _flag("--max-cudagraph-capture-size", whole(0, 10**6), "max_cudagraph_capture_size"),
    _flag("--attention-backend", WORD, "attention_backend"),
    Flag(("--compilation-config", "-cc"), Kind(Takes.ONE, _compilation), "", keys=COMPILATION_KEYS),
    Flag(("--attention-config", "-ac"), JSON_OBJECT, "", keys=ATTENTION_KEYS),
    # speculative decoding
    Flag(("--speculative-config", "-sc"), JSON_OBJECT, "", keys=SPECULATIVE_KEYS),
    _flag("--spec-method", WORD, "speculative.method"),
    _flag("--spec-model --speculative-model", WORD, "speculative.model"),
    _flag("--spec-tokens --num-speculative-tokens", whole(1, 1000), "speculative.num_speculative_tokens"),
    _flag("--speculative-draft-tensor-parallel-size -spec-draft-tp", RANKS, "speculative.draft_tensor_parallel_size"),
    _flag("--speculative-max-model-len", whole(1, 10**9), "speculative.max_model_len"),
    _flag("--speculative-model-quantization", WORD, "speculative.quantization"),
    # other modalities and LoRA
    _flag("--limit-mm-per-prompt", PER_PROMPT, "limit_mm_per_prompt"),
    _flag("--language-model-only", SWITCH, "language_model_only"),
    _flag("--skip-mm-profiling", SWITCH, "skip_mm_profiling"),
    _flag("--mm-encoder-tp-mode", choice("weights", "data"), "mm_encoder_tp_mode"),
    _flag("--enable-lora", SWITCH, "enable_lora"),
    _flag("--max-loras", whole(1, 10**5), "max_loras"),
    _flag("--max-lora-rank", whole(1, 4096), "max_lora_rank"),
    _flag("--lora-dtype", choice("auto", "float16", "bfloat16"), "lora_dtype"),
    _flag("--fully-sharded-loras", SWITCH, "fully_sharded_loras"),
    # a file of flags
    _flag("--config", WORD, "config"),
)

VLLM = FlagTable("vllm", (*MEMORY_FLAGS, *NOTED, *IGNORED))
