"""What each layer keeps, by family: the facts from which the KV cache is laid out."""

from collections import Counter
from typing import Any

import public_shapes as shapes
import pytest

from sim.catalog import Model
from sim.catalog.config import read_config
from sim.catalog.layers import AttentionKv, IndexerKv, LatentKv, LayerKv, RecurrentState
from sim.errors import CatalogError

PLAIN: dict[str, Any] = {
    "num_hidden_layers": 12,
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
}
MAMBA2 = {"mamba_n_heads": 32, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_n_groups": 1}
FULL = AttentionKv(2, 128, 128)
STATE = RecurrentState(32 * 64 + 2 * 128, 3, 32 * 64 * 128, checkpoints=True)


def model_of(config: dict[str, Any]) -> Model:
    """Return the model a config describes."""
    return Model(name="layout", **read_config("config.json", config))


def window(tokens: int) -> AttentionKv:
    """Return the plain shape's heads with a window."""
    return AttentionKv(2, 128, 128, window_tokens=tokens)


def pattern(model: Model) -> str:
    """Return a letter a layer: Full, Window, Chunk, Latent, State, Both, or - for none."""

    def letter(kv: LayerKv) -> str:
        letters = {LatentKv: "L", RecurrentState: "S"}
        if len(kv) == 2 and isinstance(kv[1], RecurrentState):
            return "B"
        if not kv or not isinstance(kv[0], AttentionKv):
            return letters[type(kv[0])] if kv else "-"
        return "W" if kv[0].window_tokens else "C" if kv[0].chunk_tokens else "F"

    return "".join(map(letter, model.kv_layers))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "llama"}, "FFFFFFFFFFFF"),
        ({"model_type": "mistral"}, "WWWWWWWWWWWW"),  # v0.1 leaves its class's 4,096 out
        ({"model_type": "mistral", "sliding_window": None}, "FFFFFFFFFFFF"),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, "FFFFFFFFFFFF"),
        (
            {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 9},
            "FFFFFFFFFWWW",
        ),
        ({"model_type": "gemma2"}, "WFWFWFWFWFWF"),
        ({"model_type": "gemma3_text", "sliding_window": 512}, "WWWWWFWWWWWF"),
        ({"model_type": "cohere2"}, "WWWFWWWFWWWF"),
        ({"model_type": "olmo3"}, "WWWFWWWFWWWF"),
        ({"model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG"}, "WWWFWWWFWWWF"),
        ({"model_type": "exaone4", "sliding_window": None, "sliding_window_pattern": "LLLG"}, "FFFFFFFFFFFF"),
        ({"model_type": "gpt_oss"}, "WFWFWFWFWFWF"),
        ({"model_type": "llama4_text"}, "CCCFCCCFCCCF"),
        ({"model_type": "llama4_text", "no_rope_layers": [1, 0] * 6}, "CFCFCFCFCFCF"),
        ({"model_type": "granitemoehybrid", "layer_types": ["mamba"] * 11 + ["attention"], **MAMBA2}, "SSSSSSSSSSSF"),
        ({"model_type": "bamba", "attn_layer_indices": [4, 9], **MAMBA2}, "SSSSFSSSSFSS"),
        ({"model_type": "jamba", "mamba_dt_rank": 64}, "SSSSFSSSSSSS"),
        ({"model_type": "falcon_h1", **MAMBA2}, "BBBBBBBBBBBB"),
        (
            {
                "model_type": "nemotron_h",
                "hybrid_override_pattern": "M-M-M*-M-M-E",
                "n_routed_experts": 8,
                "num_experts_per_tok": 2,
                "mamba_num_heads": 32,
                "mamba_head_dim": 64,
            },
            "S-S-SF-S-S--",
        ),
        ({"model_type": "lfm2", "layer_types": ["conv", "conv", "full_attention"] * 4}, "SSFSSFSSFSSF"),
        ({"model_type": "minimax_m1", "attn_type_list": [0, 0, 0, 1] * 3}, "SSSFSSSFSSSF"),
        ({"model_type": "bailing_moe_linear", "layer_group_size": 5}, "SSSSFSSSSFFF"),
        ({"model_type": "qwen3_next", "linear_num_key_heads": 4, "linear_num_value_heads": 8}, "SSSFSSSFSSSF"),
        ({"model_type": "gemma3n_text", "num_kv_shared_layers": 4}, "WWWWFWWW----"),
        ({"model_type": "something_new"}, "FFFFFFFFFFFF"),
        ({"model_type": "something_new", "sliding_window": 1024, "layer_types": ["sliding_attention"] * 12}, "W" * 12),
    ],
)
def test_the_kind_of_each_layer(changes: dict[str, Any], expected: str) -> None:
    """By the keys of the config, and by its class's defaults where it has none."""
    assert pattern(model_of(PLAIN | changes)) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (PLAIN | {"model_type": "gemma3_text"}, {(window(4096),): 10, (FULL,): 2}),
        (PLAIN | {"model_type": "llama4_text"}, {(AttentionKv(2, 128, 128, None, 8192),): 9, (FULL,): 3}),
        (PLAIN | {"model_type": "bamba", "attn_layer_indices": [3], **MAMBA2}, {(STATE,): 11, (FULL,): 1}),
        (PLAIN | {"model_type": "falcon_h1", **MAMBA2}, {(FULL, STATE): 12}),
        (PLAIN | {"model_type": "gpt_bigcode", "head_dim": None}, {(AttentionKv(1, 128, 128),): 12}),
        (
            shapes.QWEN35_27B,
            {(RecurrentState(10240, 3, 48 * 128 * 128, "float32"),): 48, (AttentionKv(4, 256, 256),): 16},
        ),
        (shapes.QWEN3_NEXT_80B, {(RecurrentState(8192, 3, 32 * 128 * 128),): 36, (AttentionKv(2, 256, 256),): 12}),
        (shapes.GPT_OSS_20B, {(AttentionKv(8, 64, 64, 128),): 12, (AttentionKv(8, 64, 64),): 12}),
        (shapes.GEMMA4_26B, {(AttentionKv(8, 256, 256, 1024),): 25, (AttentionKv(2, 512, 512),): 5}),
        (shapes.GEMMA4_E2B, {(AttentionKv(1, 256, 256, 512),): 12, (AttentionKv(1, 512, 512),): 3, (): 20}),
        (shapes.DEEPSEEK_V3, {(LatentKv(512, 64),): 61}),
        (shapes.DEEPSEEK_V3 | {"model_type": "deepseek_v32"}, {(LatentKv(512, 64), IndexerKv(128)): 61}),
        (
            shapes.DEEPSEEK_V3 | {"model_type": "glm_moe_dsa", "indexer_types": ["full", "shared"] * 30 + ["full"]},
            {(LatentKv(512, 64), IndexerKv(128)): 31, (LatentKv(512, 64),): 30},
        ),
        (
            PLAIN
            | {
                "model_type": "mimo_v2_flash",
                "v_head_dim": 64,
                "sliding_window": 128,
                "swa_num_key_value_heads": 4,
                "swa_head_dim": 128,
                "swa_v_head_dim": 64,
                "hybrid_layer_pattern": [0, 1, 1, 1] * 3,
            },
            {(AttentionKv(2, 128, 64),): 3, (AttentionKv(4, 128, 64, 128),): 9},
        ),
        (
            shapes.KIMI_K25["text_config"]
            | {
                "model_type": "kimi_linear",
                "q_lora_rank": None,
                "linear_attn_config": {
                    "kda_layers": [n for n in range(1, 62) if n % 4],
                    "full_attn_layers": [],
                    "num_heads": 32,
                    "head_dim": 128,
                    "short_conv_kernel_size": 4,
                },
            },
            {(RecurrentState(3 * 4096, 3, 32 * 128 * 128, "float32"),): 46, (LatentKv(512, 64),): 15},
        ),
        (
            {"model_type": "mamba2", "num_hidden_layers": 4, "hidden_size": 4096, "vocab_size": 32768},
            {(RecurrentState(8192 + 2 * 8 * 128, 3, 8192 * 128, checkpoints=True),): 4},
        ),
        (
            {"model_type": "mamba", "num_hidden_layers": 4, "hidden_size": 1024, "vocab_size": 50280},
            {(RecurrentState(2048, 3, 2048 * 16),): 4},
        ),
    ],
)
def test_what_each_layer_keeps(config: dict[str, Any], expected: dict[LayerKv, int]) -> None:
    """Sizes of the whole model, in elements, and how many layers keep them."""
    assert Counter(model_of(config).kv_layers) == expected


def test_pruned_layers_have_heads_of_their_own() -> None:
    """Llama-Nemotron's search left some layers without attention and some without a feed-forward block."""
    block = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 1.3125}}
    bare = {"attention": {"no_op": True}, "ffn": {"no_op": True}}
    model = model_of(PLAIN | {"model_type": "nemotron-nas", "block_configs": [block] * 10 + [bare] * 2})
    assert Counter(model.kv_layers) == {(FULL,): 10, (): 2}
    assert model.linear_params == 10 * (1024 * 1024 * 2 + 2 * 1024 * 256 + 3 * 1024 * 1024)


def test_step3_queries_go_through_one_small_vector() -> None:
    """Multi-matrix factorisation attention: one KV head, and a query of two thin matrices."""
    shared = {"model_type": "step3_text", "num_key_value_heads": None, "num_attention_groups": 1, "share_q_dim": 256}
    model = model_of(PLAIN | shared)
    assert set(model.kv_layers) == {(AttentionKv(1, 128, 128),)}
    query = 1024 * 256 + 256 * 8 * 128
    assert model.linear_params == 12 * (query + 1024 * (2 * 128 + 8 * 128) + 3 * 1024 * 4096)


def test_drafts_keep_what_a_full_layer_keeps() -> None:
    """One multi-token-prediction layer of DeepSeek V3 is MLA, of Qwen3.5 attention."""
    assert (len(model_of(shapes.DEEPSEEK_V3).mtp), model_of(shapes.DEEPSEEK_V3).mtp_kv) == (1, (LatentKv(512, 64),))
    assert model_of(shapes.QWEN35_27B).mtp_kv == (AttentionKv(4, 256, 256),)
    assert model_of(shapes.GPT_OSS_20B).mtp_kv == ()


def test_only_layers_that_keep_every_token_grow_with_it() -> None:
    """Published rates: 64 KiB of Qwen3.5-27B, 70,272 B of DeepSeek V3 whatever the ranks, 3 full layers of E2B."""
    assert model_of(shapes.QWEN35_27B).kv_bytes_per_token("bf16") == 65_536
    assert model_of(shapes.DEEPSEEK_V3).kv_bytes_per_token("bf16", 8) == 70_272
    assert model_of(shapes.GEMMA4_E2B).kv_bytes_per_token("bf16") == 3 * 2 * 512 * 2
    assert model_of(shapes.QWEN35_27B).attention_flops_per_pair == 16 * 4 * 24 * 256


@pytest.mark.parametrize(
    ("changes", "positions"),
    [
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 131072),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}}, 32768),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, 65536),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 32768),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 32, "long_factor": [1.0]}}, 32768),
    ],
)
def test_the_longest_context_is_stretched_as_vllm_does(changes: dict[str, Any], positions: int) -> None:
    """Yarn stretches the original length; llama3 and longrope already name the length they reach."""
    assert model_of(PLAIN | {"model_type": "llama"} | changes).max_position_embeddings == positions


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (PLAIN | {"model_type": "something_new", "kv_lora_rank": 512}, "kv_lora_rank means latent attention"),
        (PLAIN | {"model_type": "something_new", "mamba_d_state": 16}, "mamba_d_state means recurrent layers"),
        (PLAIN | {"model_type": "something_new", "compress_ratios": [4]}, "compress_ratios means compressed"),
        (PLAIN | {"kv_lora_rank": 512}, "kv_lora_rank means latent attention"),
        (PLAIN | {"model_type": "llama", "layer_types": ["full_attention"] * 3}, "layer_types has 3 entries"),
        (PLAIN | {"model_type": "llama", "layer_types": ["magic"] * 12}, "layer_types holds 'magic'"),
        (PLAIN | {"model_type": "llama", "layer_types": "full"}, "layer_types 'full' must be a list"),
        (PLAIN | {"model_type": "nemotron_h", "hybrid_override_pattern": "MMX"}, "hybrid_override_pattern holds 'X'"),
        (PLAIN | {"model_type": "nemotron_h", "hybrid_override_pattern": "MM"}, "has 2 letters"),
        (PLAIN | {"model_type": "llama", "num_key_value_heads": 3}, "multiple of num_key_value_heads 3"),
        (PLAIN | {"model_type": "llama", "num_hidden_layers": 10**9}, "num_hidden_layers 1000000000 is more"),
        (PLAIN | {"model_type": "llama", "vocab_size": 10**300}, "vocab_size of that size is beyond"),
        (PLAIN | {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 1e308}}, r"rope_scaling.factor"),
        (PLAIN | {"model_type": "llama", "rope_scaling": []}, "rope_scaling"),
        (PLAIN | {"model_type": 7}, "model_type 7 must be text"),
        ({"model_type": "gemma3", "text_config": [1]}, "text_config"),
        (PLAIN | {"model_type": "new", "mamba_\n" + "x" * 999: 1}, "means recurrent layers"),
        (PLAIN | {"model_type": "llama", "quantization_config": {"quant_method": "hqq"}}, "quant_method 'hqq'"),
        (PLAIN | {"model_type": "qwen3_moe", "num_experts": 8}, "num_experts_per_tok is missing"),
        (PLAIN | {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 9}, "more than the 8 experts"),
        (shapes.DEEPSEEK_V3 | {"v_head_dim": None}, "v_head_dim is missing"),
        (PLAIN | {"model_type": "bamba", "attn_layer_indices": [1]}, "mamba_n_heads is missing"),
        (PLAIN | {"model_type": "jamba", "attn_layer_offset": 9}, "attn_layer_offset 9 must be less"),
    ],
)
def test_what_cannot_be_read_names_the_key(config: dict[str, Any], said: str) -> None:
    """One line with the place, the key and what is wrong."""
    with pytest.raises(CatalogError, match=said) as caught:
        model_of(config)
    assert str(caught.value).startswith("config.json: ")
    assert "\n" not in str(caught.value)
