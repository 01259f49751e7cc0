"""What each model family's config class presets where config.json says nothing.

Read from the configuration classes of Hugging Face transformers (4.57 and 5.x) and vLLM's own. Only defaults that
change memory stand here; sizes that every config.json states (layers, hidden size, heads) have none on purpose.
A key that is present wins, even if it is null.
"""

from types import MappingProxyType
from typing import Any

_QWEN2: dict[str, Any] = {"use_sliding_window": False}  # carries a window that it does not use
_QWEN3: dict[str, Any] = _QWEN2 | {"qk_norm": True}
_GDN: dict[str, Any] = {  # gated delta net: Qwen3-Next, Qwen3.5
    "use_sliding_window": False,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "attn_output_gate": True,
    "partial_rotary_factor": 0.25,
    "qk_norm": True,
}
_MLA: dict[str, Any] = {"first_k_dense_replace": 3, "n_shared_experts": 1}
_GEMMA: dict[str, Any] = {"head_dim": 256, "tie_word_embeddings": True, "vocab_size": 262208}
_GEMMA3: dict[str, Any] = _GEMMA | {  # the 4B's text_config leaves its heads out
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "qk_norm": True,
}
_GEMMA3N: dict[str, Any] = _GEMMA | {
    "sliding_window": 512,
    "sliding_window_pattern": 5,
    "num_kv_shared_layers": 15,
    "hidden_size_per_layer_input": 256,
    "vocab_size": 262400,
    "vocab_size_per_layer_input": 262144,
    "qk_norm": True,
}
_GEMMA4: dict[str, Any] = _GEMMA | {
    "global_head_dim": 512,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
    "vocab_size_per_layer_input": 262144,
    "qk_norm": True,
}
_MAMBA2: dict[str, Any] = {"mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_n_groups": 1}
_MAMBA: dict[str, Any] = {
    "mamba_version": 1,
    "conv_kernel": 4,
    "state_size": 16,
    "expand": 2,
    "max_position_embeddings": 2048,  # what vLLM takes where a config names no length
}
_GRANITE_HYBRID: dict[str, Any] = _MAMBA2 | {"mamba_d_state": 256}
_OLMO3: dict[str, Any] = {"sliding_window": 4096, "sliding_window_pattern": 4, "qk_norm": True}

FAMILIES: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "llama": {},
        "mistral": {"sliding_window": 4096},
        "mixtral": {"sliding_window": None},
        "ministral": {"sliding_window": None},
        "ministral3": {"sliding_window": None},
        "mistral3": {},
        "pixtral": {},
        "llava": {"vocab_size": 32064},
        "llava_next": {"vocab_size": 32064},
        "qwen2": _QWEN2,
        "qwen2_moe": _QWEN2 | {"shared_expert_gate": True},
        "qwen2_vl": _QWEN2,
        "qwen2_5_vl": _QWEN2,
        "qwen3": _QWEN3,
        "qwen3_moe": _QWEN3,
        "qwen3_vl": _QWEN3,
        "qwen3_vl_moe": _QWEN3,
        "qwen3_next": _GDN | {"num_nextn_predict_layers": 1, "shared_expert_gate": True},
        "qwen3_5": _GDN,
        "qwen3_5_moe": _GDN | {"shared_expert_gate": True},
        "gemma": {"head_dim": 256, "tie_word_embeddings": True},
        "gemma2": {
            "head_dim": 256,
            "tie_word_embeddings": True,
            "sliding_window": 4096,
            "sliding_window_pattern": 2,
            "vocab_size": 256000,
            "max_position_embeddings": 8192,
        },
        "gemma3": _GEMMA3,
        "gemma3_text": _GEMMA3,
        "gemma3n": _GEMMA3N,
        "gemma4": _GEMMA4,
        "gemma4_unified": _GEMMA4,
        "gpt_oss": {
            "sliding_window": 128,
            "sliding_window_pattern": 2,
            "head_dim": 64,
            "num_experts_per_tok": 4,
        },
        "llama4": {
            "attention_chunk_size": 8192,
            "no_rope_layer_interval": 4,
            "num_experts_per_tok": 1,
            "n_shared_experts": 1,
            "interleave_moe_layer_step": 1,
            "head_dim": 128,
        },
        "deepseek_v2": _MLA,
        "deepseek_v3": _MLA,
        "deepseek_v32": _MLA | {"index_head_dim": 128, "index_n_heads": 64},
        "kimi_k2": _MLA,
        "kimi_k25": _MLA,
        "kimi_linear": {"first_k_dense_replace": 1},
        "kimi_k3": {"first_k_dense_replace": 1},
        "glm": {},
        "glm4": {},
        "glm4_moe": {"first_k_dense_replace": 1, "n_shared_experts": 1},
        "glm4_moe_lite": _MLA | {"first_k_dense_replace": 1},
        "glm4v": {},
        "glm4v_moe": {"first_k_dense_replace": 1, "n_shared_experts": 1},
        "glm_moe_dsa": _MLA | {"index_head_dim": 128, "index_n_heads": 32},
        "granite": {},
        "granitemoe": {},
        "granitemoeshared": {},
        "granitemoehybrid": _GRANITE_HYBRID,
        "nemotron": {"gated_mlp": False},
        "nemotron-nas": {},
        "nemotron_h": {"gated_mlp": False, "conv_kernel": 4, "n_groups": 8, "ssm_state_size": 128},
        "phi": {"gated_mlp": False},
        "phi3": {"sliding_window": None},
        "phi4mm": {"sliding_window": None},
        "phimoe": {"sliding_window": None},
        "minimax_m1": {"linear_attention": "lightning", "shared_intermediate_size": 0},
        "minimax_text_01": {"linear_attention": "lightning", "shared_intermediate_size": 0},
        "minimax": {"linear_attention": "lightning"},
        "minimax_m2": {"shared_intermediate_size": 0},
        "seed_oss": {},
        "ernie4_5": {},
        "ernie4_5_moe": {"moe_layer_start_index": 1, "moe_layer_interval": 1},
        "olmo2": {"qk_norm": True},
        "olmo3": _OLMO3,
        "olmoe": {"qk_norm": True},
        "cohere": {"tie_word_embeddings": True},
        "cohere2": {"tie_word_embeddings": True, "sliding_window": 4096, "sliding_window_pattern": 4},
        "falcon_h1": _MAMBA2 | {"parallel_mixers": True},
        "jamba": {
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_version": 1,
            "tie_word_embeddings": False,
        },
        "bamba": _MAMBA2,
        "mamba": _MAMBA | {"tie_word_embeddings": True},
        "falcon_mamba": _MAMBA,
        "mamba2": _MAMBA
        | {"mamba_version": 2, "state_size": 128, "n_groups": 8, "mamba_head_dim": 64, "num_heads": 128},
        "lfm2": {"conv_L_cache": 3, "tie_word_embeddings": True},
        "lfm2_moe": {"conv_L_cache": 3, "tie_word_embeddings": True},
        "mimo": {},
        "mimo_v2_flash": {},
        "mimo_v2": {},
        "bailing_moe": {},
        "bailing_moe_v2": {"first_k_dense_replace": 1},
        "bailing_moe_linear": {"linear_attention": "lightning"},
        "bailing_hybrid": {"linear_attention": "lightning"},
        "step3_text": {},
        "step3_vl": {},
        "step3p5": {},
        "step3p7": {},
        "exaone": {},
        "exaone4": {"qk_norm": True},
        "smollm3": {"use_sliding_window": False},
        "starcoder2": {"gated_mlp": False, "sliding_window": None, "tie_word_embeddings": True},
        "gpt_bigcode": {"gated_mlp": False, "multi_query": True, "tie_word_embeddings": True},
        "gpt2": {"gated_mlp": False, "tie_word_embeddings": True},
        "opt": {"gated_mlp": False, "tie_word_embeddings": True},
        "stablelm": {},
        "internlm2": {},
        "internlm3": {},
        "internvl": {},
        "internvl_chat": {},
        "apertus": {"gated_mlp": False, "qk_norm": True},
        "hunyuan_v1_dense": {"qk_norm": True},
        "hunyuan_v1_moe": {"qk_norm": True},
        "arcee": {"gated_mlp": False},
        "solar": {},
        "mllama": {},
        "lightonocr": {},
    }
)

# Sizes that a wrapper's text_config leaves out where they are its class's own, since only differences are saved.
WRAPPED: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "llama": {
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "max_position_embeddings": 2048,
        },
        "mistral": {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
        },
        "gemma3_text": {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26},
    }
)

# Keys that change the memory of a model in ways its family must say; a model_type not listed above is refused by them.
HINTS = MappingProxyType(
    {
        "kv_lora_rank": "latent attention",
        "attention_chunk_size": "chunked local attention",
        "full_attention_interval": "linear attention",
        "attn_layer_period": "recurrent layers",
        "hybrid_override_pattern": "recurrent layers",
        "layers_block_type": "recurrent layers",
        "linear_attn_config": "linear attention",
        "ssm_cfg": "recurrent layers",
        "state_size": "recurrent layers",
        "compress_ratios": "compressed attention",
        "sparse_attention_config": "sparse attention",
        "index_head_dim": "sparse attention",
        "num_kv_shared_layers": "layers that share KV",
        "block_configs": "layers of different shape",
        "hidden_size_per_layer_input": "per-layer embeddings",
        "hybrid_layer_pattern": "windows of another shape",
        "is_encoder_decoder": "an encoder",
    }
)
HINT_BEGINNINGS = MappingProxyType(
    {
        "mamba_": "recurrent layers",
        "ssm_": "recurrent layers",
        "linear_": "linear attention",
        "rwkv": "recurrent layers",
    }
)


def family_of(model_type: str) -> str | None:
    """Return the family a model_type belongs to, with or without `_text`, or None if it is not listed."""
    bare = model_type.removesuffix("_text")
    return next((name for name in (model_type, bare, model_type.replace("-", "_")) if name in FAMILIES), None)
