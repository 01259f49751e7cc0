"""What a quantisation_config says about bytes."""

from typing import Any

import pytest

from sim.catalog import Model
from sim.catalog.config import read_config
from sim.errors import CatalogError, MemoryLedgerError

SHAPE: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
EXPERTS = SHAPE | {
    "model_type": "qwen3_moe",
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
}
ENDS = 2 * 2 * 32000 * 1024
ATTENTION = 1024 * 128 * (8 + 2 + 2 + 8)
MLP = 3 * 1024 * 4096


def model_of(quantization: dict[str, Any], shape: dict[str, Any] = SHAPE) -> Model:
    """Return the shape quantised so."""
    return Model(name="q", **read_config("config.json", shape | {"quantization_config": quantization}))


def compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a compressed-tensors config of one group."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": more.pop("activations", None)}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, **more}


@pytest.mark.parametrize(
    ("quantization", "name", "kernels", "bits"),
    [
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8", "fp8", 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", "fp8", 8 + 32 / 128**2),
        ({"quant_method": "fbgemm_fp8"}, "fp8", "fp8", 8),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", "int4", 4.24),
        ({"quant_method": "awq", "bits": 4, "group_size": 32}, "awq", "int4", 4.24 + 20 / 32 - 20 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq-int4", "int4", 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq-int8", "int8", 8),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "autoround-int4", "int4", 4 + 20 / 128),
        (compressed({"num_bits": 4, "type": "int", "group_size": 128}), "w4a16", "int4", 4 + 16 / 128),
        (compressed({"num_bits": 8, "type": "int"}, activations={"num_bits": 8}), "w8a8", "int8", 8),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}), "fp8", "fp8", 8),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}), "nvfp4", "nvfp4", 4.5),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32}), "mxfp4", "mxfp4", 4.25),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", "nvfp4", 4.5),
        ({"quant_algo": "FP8"}, "fp8", "fp8", 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb-4bit", "int4", 4.5),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-8bit", "int8", 8),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}},
            "w4a16",
            "int4",
            4.125,
        ),
        ({"quant_method": "torchao", "quant_type": "float8_dynamic_activation"}, "fp8", "fp8", 8),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "fp8", "fp8", 8),
    ],
)
def test_each_method_has_its_bits(quantization: dict[str, Any], name: str, kernels: str, bits: float) -> None:
    """Scales are counted; embeddings and head stay in 16 bits."""
    model = model_of(quantization)
    assert model.scheme is not None
    assert (model.scheme.name, model.weight_dtype) == (name, kernels)
    assert model.weight_bytes("auto") == pytest.approx(ENDS + 2 * (ATTENTION + MLP) * bits / 8, abs=1)


@pytest.mark.parametrize(
    ("ignored", "kept"),
    [
        (["lm_head"], 0),
        (["re:.*self_attn.*"], 2 * ATTENTION),
        (["model.layers.0.self_attn", "model.layers.1.self_attn"], 2 * ATTENTION),
        (["model.layers.1.self_attn*"], ATTENTION),
        (["model.layers.*.self_attn"], 2 * ATTENTION),
        (["*.self_attn.*"], 2 * ATTENTION),
        (["self_attn"], 2 * ATTENTION),
        (["model.layers.0.mlp.gate_proj"], MLP // 3),
        (["gate_proj"], 2 * MLP // 3),
        (["gate"], 0),  # a router, not a gate_proj
        (["model.layers.1"], ATTENTION + MLP),
        (["vision_tower.encoder.layers.0.mlp.fc1", "model.visual.layers.0.mlp*", "mtp.layers.0.mlp"], 0),
        (["model.layers.10.mlp", "model.layers.11*"], 0),
        (["re:.*(gate_proj|up_proj)$"], 2 * MLP * 2 // 3),
        (["re:(((("], 0),
        (["model.language_model.layers.0.mlp*"], MLP),
        (["re:model.language_model.layers.0.mlp.*"], MLP),
        ([f"model.layers.{n}.self_attn.{m}_proj" for n in range(2000) for m in "qkvo"], 2 * ATTENTION),
    ],
)
def test_modules_left_out_stay_in_16_bits(ignored: list[str], kept: int) -> None:
    """However a list names them."""
    model = model_of(compressed({"num_bits": 8, "type": "float"}, ignore=ignored))
    assert model.weight_bytes("auto") == ENDS + 2 * (ATTENTION + MLP) + kept


def test_mixed_precision_names_each_module() -> None:
    """Modelopt's quantized_layers: what is not listed stays in 16 bits, and a listed head does not."""
    layers = {
        f"model.layers.{n}.mlp.{m}_proj": {"quant_algo": "NVFP4"} for n in range(2) for m in ("gate", "up", "down")
    }
    mixed = {"quant_algo": "MIXED_PRECISION", "quantized_layers": {**layers, "lm_head": {"quant_algo": "FP8"}}}
    model = model_of({"quant_method": "modelopt", "quantization": mixed})
    head = 32000 * 1024
    assert model.weight_bytes("auto") == ENDS - head + 2 * (2 * ATTENTION + MLP * 4.5 / 8)


def test_groups_may_have_targets_of_their_own() -> None:
    """Attention in fp8, experts in 4 bits; routers never quantised."""
    groups = {
        "group_0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        "group_1": {"targets": ["re:.*experts.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
    }
    model = model_of({"quant_method": "compressed-tensors", "config_groups": groups}, EXPERTS)
    experts, router = 16 * 3 * 1024 * 512, 16 * 1024
    assert model.weight_bytes("auto") == ENDS + 2 * (ATTENTION + experts * 4.5 / 8 + 2 * router)


def test_gpt_oss_experts_alone_are_in_four_bits_and_padded() -> None:
    """The kernels want an expert's width in multiples of 256, on each rank."""
    wide = EXPERTS | {"moe_intermediate_size": 384}
    model = model_of({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, wide)
    router = 16 * 1024
    for ranks, width in ((1, 512), (2, 256 * 2)):
        experts = 16 * 3 * 1024 * width * 4.25 / 8
        each = (ENDS + 2 * (2 * ATTENTION + experts)) / ranks + 2 * 2 * router
        assert model.weight_bytes("auto", ranks) == each


@pytest.mark.parametrize(
    ("quantization", "kv_cache_dtype"),
    [
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": None}, None),
        (compressed({"num_bits": 8, "type": "float"}, kv_cache_scheme={"num_bits": 8, "type": "float"}), "fp8"),
        (compressed({"num_bits": 8, "type": "float"}, kv_cache_scheme=None), None),
        ({"quant_method": "fp8"}, None),
    ],
)
def test_auto_kv_is_what_the_checkpoint_brings_scales_for(
    quantization: dict[str, Any], kv_cache_dtype: str | None
) -> None:
    """None leaves "auto" to the engine."""
    assert model_of(quantization).kv_cache_dtype == kv_cache_dtype


@pytest.mark.parametrize(
    ("quantization", "said"),
    [
        ({"quant_method": "hqq"}, "quant_method 'hqq' is not one of"),
        ({"bits": 4}, "quant_method is missing"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [0, 0]}, "weight_block_size"),
        ({"quant_method": "gptq", "bits": -4}, "bits -4 must be a whole number"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size 0"),
        ({"quant_method": "modelopt", "quant_algo": "FP5"}, "quant_algo 'FP5' is not one of"),
        (compressed({"type": "int"}), "num_bits is missing"),
        (compressed({"num_bits": 4}, ignore="lm_head"), "ignore 'lm_head' must be a list"),
        ({"quant_method": "torchao"}, "name no weight type"),
        (compressed({"num_bits": 4}, ignore=["re:(a+)+$"]), "repeats too much"),
        (compressed({"num_bits": 4}, ignore=["re:" + ".*a" * 20]), "repeats too much"),
        (compressed({"num_bits": 4}, ignore=[f"re:.*{n}" for n in range(2001)]), "more than 2000 patterns"),
        ({"quant_method": "x" * 10_000}, "is not one of"),
        ({"quant_method": "modelopt", "quantized_layers": {"a\nb" * 99: {"quant_algo": "FP5"}}}, "'FP5' is not one of"),
    ],
)
def test_what_is_not_understood_names_the_key(quantization: dict[str, Any], said: str) -> None:
    """With the file and what to do."""
    with pytest.raises(CatalogError, match=said) as caught:
        model_of(quantization)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("nvfp4", 4.5),
        ("mxfp4", 4.25),
        ("w4a16", 4.125),
        ("w8a8", 8),
        ("gptq-int4", 4.156),
        ("gptq-int8", 8),
        ("awq-int4", 4.24),
        ("bnb-4bit", 4.5),
        ("int4-autoround", 4.125),
    ],
)
def test_explicit_types_have_their_bits(name: str, bits: float) -> None:
    """weight_dtype takes the names people use; MXFP4 leaves attention alone."""
    model = Model(name="q", **read_config("config.json", SHAPE))
    kept = 2 * ATTENTION if name == "mxfp4" else 0
    body = (2 * (ATTENTION + MLP) - kept) * bits / 8 + 2 * kept
    assert model.weight_bytes(name) == pytest.approx(ENDS + body, abs=1)


def test_a_typo_names_the_nearest_type() -> None:
    """The error lists the valid ones."""
    with pytest.raises(MemoryLedgerError, match="did you mean 'nvfp4'"):
        Model(name="q", **read_config("config.json", SHAPE)).weight_bytes("nvfp5")
