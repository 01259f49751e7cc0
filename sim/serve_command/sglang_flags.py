"""SGLang's flags that touch memory, under the settings' vLLM names. Source: SGLang 0.4.6 to 0.5.23.

Not the same thing under another name, so settings of their own: `mem_fraction_static` (the share of the memory free
at start that weights and pools may take), `max_total_tokens`, and how the pools of hybrid models are split.
"""

from sim.serve_command.flags import Flag, FlagTable
from sim.serve_command.sglang_ignored import IGNORED, NOTED
from sim.serve_command.values import (
    JSON_OBJECT,
    PER_PROMPT,
    SGLANG_SCALED,
    SHARE,
    SWITCH,
    SWITCH_OFF,
    WHOLES,
    WORD,
    Kind,
    Takes,
    choice,
    chunk_tokens,
    number,
    whole,
)

DTYPE = choice("auto", "half", "float16", "bfloat16", "float", "float32")
KV_CACHE_DTYPE = choice(
    "auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16", "fp4_e2m1"
)
RANKS = whole(1, 4096)


def _flag(names: str, kind: Kind, target: str) -> Flag:
    return Flag(tuple(names.split()), kind, target)


def _backend(text: str) -> bool | None:
    """Read the backend of the decode graphs: only `disabled` says whether there are any."""
    return True if text.lower() == "disabled" else None


MEMORY_FLAGS = (
    # the model
    _flag("--model-path --model", WORD, "model"),
    _flag("--tokenizer-path", WORD, "tokenizer"),
    _flag("--revision", WORD, "revision"),
    _flag("--json-model-override-args", JSON_OBJECT, "hf_overrides"),
    _flag("--dtype", DTYPE, "dtype"),
    _flag("--quantization", WORD, "quantization"),
    _flag("--load-format", WORD, "load_format"),
    _flag("--context-length", SGLANG_SCALED, "max_model_len"),
    # the batch
    _flag("--chunked-prefill-size", Kind(Takes.ONE, chunk_tokens), "max_num_batched_tokens"),
    _flag("--max-prefill-tokens", SGLANG_SCALED, "max_prefill_tokens"),
    _flag("--max-running-requests", whole(1, 10**7), "max_num_seqs"),
    _flag("--disable-overlap-schedule", SWITCH_OFF, "async_scheduling"),
    # the pools
    _flag("--mem-fraction-static", SHARE, "mem_fraction_static"),
    _flag("--max-total-tokens", SGLANG_SCALED, "max_total_tokens"),
    _flag("--page-size", whole(1, 2**16), "block_size"),
    _flag("--kv-cache-dtype", KV_CACHE_DTYPE, "kv_cache_dtype"),
    _flag("--disable-radix-cache", SWITCH_OFF, "enable_prefix_caching"),
    _flag("--swa-full-tokens-ratio", number(0, 1000, above=True), "swa_full_tokens_ratio"),
    _flag("--disable-hybrid-swa-memory", SWITCH, "disable_hybrid_kv_cache_manager"),
    _flag("--max-mamba-cache-size", whole(1, 10**9), "max_mamba_cache_size"),
    _flag("--mamba-full-memory-ratio", number(0, 1000, above=True), "mamba_full_memory_ratio"),
    _flag("--mamba-ssm-dtype", choice("float32", "float16", "bfloat16"), "mamba_ssm_cache_dtype"),
    _flag("--mamba-radix-cache-strategy --mamba-scheduler-strategy", WORD, "mamba_radix_cache_strategy"),
    _flag("--cpu-offload-gb", number(), "cpu_offload_gb"),
    # the ranks
    _flag("--tp-size --tensor-parallel-size --tp", RANKS, "tensor_parallel_size"),
    _flag("--pp-size --pipeline-parallel-size --pp", RANKS, "pipeline_parallel_size"),
    _flag("--dp-size --data-parallel-size --dp", RANKS, "data_parallel_size"),
    _flag("--ep-size --expert-parallel-size --ep", RANKS, "expert_parallel_size"),
    _flag("--dcp-size --decode-context-parallel-size", RANKS, "decode_context_parallel_size"),
    _flag("--enable-dp-attention", SWITCH, "enable_dp_attention"),
    _flag("--attn-dp-size --attention-data-parallel-size", RANKS, "attention_data_parallel_size"),
    _flag("--enable-ep-moe", SWITCH, "enable_expert_parallel"),
    # graphs and kernels
    _flag("--disable-cuda-graph --disable-decode-cuda-graph", SWITCH, "enforce_eager"),
    _flag("--cuda-graph-backend-decode", Kind(Takes.ONE, _backend), "enforce_eager"),
    _flag("--cuda-graph-max-bs --cuda-graph-max-bs-decode", whole(1, 10**6), "max_cudagraph_capture_size"),
    _flag("--cuda-graph-bs --cuda-graph-bs-decode", WHOLES, "cudagraph_capture_sizes"),
    _flag("--attention-backend", WORD, "attention_backend"),
    # speculative decoding
    _flag("--speculative-algorithm --speculative-algo", WORD, "speculative.method"),
    _flag("--speculative-draft-model-path --speculative-draft-model", WORD, "speculative.model"),
    _flag("--speculative-num-steps", whole(0, 1000), "speculative.num_steps"),
    _flag("--speculative-eagle-topk", whole(1, 1000), "speculative.eagle_topk"),
    _flag("--speculative-num-draft-tokens", whole(1, 1000), "speculative.num_draft_tokens"),
    _flag("--speculative-draft-kv-cache-dtype", KV_CACHE_DTYPE, "speculative.kv_cache_dtype"),
    _flag("--speculative-draft-model-quantization", WORD, "speculative.quantization"),
    # other modalities and LoRA
    _flag("--limit-mm-data-per-request", PER_PROMPT, "limit_mm_per_prompt"),
    _flag("--language-only --language-model-only", SWITCH, "language_model_only"),
    _flag("--enable-lora", SWITCH, "enable_lora"),
    _flag("--lora-paths", Kind(Takes.MANY, lambda _: True), "enable_lora"),
    _flag("--max-loras-per-batch", whole(1, 10**5), "max_loras"),
    _flag("--max-lora-rank", whole(1, 4096), "max_lora_rank"),
    # a file of flags
    _flag("--config", WORD, "config"),
)

SGLANG = FlagTable("sglang", (*MEMORY_FLAGS, *NOTED, *IGNORED))
