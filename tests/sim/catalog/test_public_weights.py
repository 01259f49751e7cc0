"""Weights of public models against what engines printed, in GiB on one GPU."""

from typing import Any

import public_shapes as shapes
import pytest

from sim.catalog import Model, load_model
from sim.catalog.config import read_config
from sim.units import GIB

FP8_BLOCKS = {
    "quantization_config": {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head"],
    }
}
GPTQ_INT4 = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}


def model_of(config: dict[str, Any]) -> Model:
    """Return the model a config describes."""
    return Model(name="public", **read_config("config.json", config))


@pytest.mark.parametrize(
    ("config", "tensor_parallel_size", "loaded_gib", "within"),
    [
        (shapes.QWEN3_NEXT_80B, 2, 74.2812, 0.005),
        (shapes.QWEN35_27B | FP8_BLOCKS, 1, 28.51, 0.01),
        (shapes.QWEN25_72B | GPTQ_INT4, 1, 38.526, 0.01),
        (shapes.QWEN25_14B, 2, 13.9476, 0.02),
        (shapes.GPT_OSS_20B, 1, 13.47, 0.01),
        (shapes.GPT_OSS_20B, 1, 13.72, 0.03),
        (shapes.GPT_OSS_120B, 1, 64.38, 0.005),
        (shapes.GEMMA4_26B, 1, 48.5, 0.01),
        (shapes.GEMMA4_E2B, 1, 8.89, 0.01),
        (shapes.KIMI_K25, 8, 73.58, 0.03),
        (shapes.LLAVA_16_MISTRAL, 1, 14.0786, 0.005),
        (shapes.QWEN3_VL_4B | FP8_BLOCKS, 1, 5.17, 0.06),  # 6.14 with 0.97 of overhead, as the log's author splits it
    ],
)
def test_weights_take_what_the_engine_says_loading_took(
    config: dict[str, Any], tensor_parallel_size: int, loaded_gib: float, within: float
) -> None:
    """The checkpoint's own scheme, and the rotary tables that loading counts."""
    model = model_of(config)
    loaded = model.weight_bytes("auto", tensor_parallel_size) + model.rotary_table_bytes
    assert loaded / GIB == pytest.approx(loaded_gib, rel=within)


@pytest.mark.parametrize(
    ("name", "tensor_parallel_size", "loaded_gib"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 1, 14.99),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", 1, 67.72),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", 2, 33.88),
        ("Qwen/Qwen3-0.6B", 1, 1.12),
        ("Qwen/Qwen3-32B", 1, 61.03),
        ("Qwen/Qwen3-32B", 2, 30.59),
        ("Qwen/Qwen3-14B", 1, 27.52),
        ("Qwen/Qwen3-14B-AWQ", 1, 9.44),
        ("Qwen/Qwen3-8B-AWQ", 1, 5.7),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", 1, 29.09),
        ("google/gemma-4-26B-A4B", 1, 48.5),
        ("openai/gpt-oss-20b", 1, 13.47),
        ("openai/gpt-oss-120b", 1, 64.38),
        ("lightonai/LightOnOCR-2-1B", 1, 1.88),
        ("llava-hf/llava-v1.6-mistral-7b-hf", 1, 14.08),
        ("Qwen3-Coder-REAP-25B-NVFP4-v2", 1, 14.0036),
        ("Qwen2.5-72B-Instruct-GPTQ-Int4", 1, 38.53),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", 2, 13.95),
        ("Qwen3-Next-80B-A3B-Instruct", 2, 74.28),
        ("Qwen3.8-27B-FP8", 1, 28.51),
        ("Qwen3.5-122B-A10B NVFP4", 1, 70.47),
    ],
)
def test_names_as_pasted_weigh_what_was_loaded(name: str, tensor_parallel_size: int, loaded_gib: float) -> None:
    """The quantisation in the name is the scheme."""
    model = load_model(name)
    loaded = model.weight_bytes("auto", tensor_parallel_size) + model.rotary_table_bytes
    assert loaded / GIB == pytest.approx(loaded_gib, rel=0.025)


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (shapes.QWEN35_2B, 2.213),  # 4.55 GB with its 61 M of multi-token prediction
        (shapes.QWEN35_27B, 27.36),
        (shapes.DEEPSEEK_V3, 671.03),
        (shapes.GPT_OSS_120B, 116.83),
        (shapes.GPT_OSS_20B, 20.91),
        (shapes.QWEN3_NEXT_80B, 79.67),
        (shapes.QWEN3_VL_4B, 4.438),
    ],
)
def test_parameters_are_those_the_model_card_counts(config: dict[str, Any], billions: float) -> None:
    """Within 0.3 %: norms and biases are left out."""
    assert model_of(config).total_params / 1e9 == pytest.approx(billions, rel=3e-3)


def test_pipeline_stages_add_up_to_the_whole() -> None:
    """The embedding is on the first stage, the head on the last, whatever the cut."""
    model = model_of(shapes.QWEN3_NEXT_80B)
    stages = [range(11), range(11, 30), range(30, 48)]
    parts = [model.weight_bytes("auto", layers=stage) for stage in stages]
    assert sum(parts) == pytest.approx(model.weight_bytes("auto"), abs=2)
    assert parts[0] > model.weight_bytes("auto", layers=range(1, 12))


def test_a_tied_head_is_held_twice_when_stages_part_it_from_the_embedding() -> None:
    """The last stage needs the matrix as well."""
    model = load_model("Qwen3-4B")
    first, last = (model.weight_bytes("bf16", layers=part) for part in (range(18), range(18, 36)))
    assert first == last
    assert first + last == model.weight_bytes("bf16") + 2 * model.embedding_params


def test_experts_are_dealt_out_and_the_rest_is_not() -> None:
    """With expert parallelism a rank holds whole experts; the attention of every layer stays split by TP alone."""
    model = model_of(shapes.QWEN3_NEXT_80B)
    alone, dealt = model.weight_bytes("bf16"), model.weight_bytes("bf16", expert_parallel_size=8)
    experts = 48 * 512 * 3 * 2048 * 512
    assert alone - dealt == 2 * experts * 7 // 8
    uneven = model.weight_bytes("bf16", expert_parallel_size=7)
    assert uneven - dealt == 2 * 48 * (74 - 64) * 3 * 2048 * 512


def test_kv_heads_and_latents_are_repeated_where_ranks_outnumber_them() -> None:
    """Two KV heads on eight ranks: the key and value projections stop shrinking; MLA's down-projections never split."""
    model = model_of(shapes.QWEN3_NEXT_80B)
    key_and_value = 12 * 2 * 2048 * 2 * 256 * 2
    grown = model.weight_bytes("bf16", 8) * 8 - model.weight_bytes("bf16", 2) * 2
    routers = 48 * 2 * 2048 * (512 + 1)
    assert grown == pytest.approx(3 * key_and_value + 6 * routers, abs=64)


def test_the_encoder_can_be_left_out() -> None:
    """--language-model-only does not load it."""
    model = model_of(shapes.QWEN35_27B)
    assert model.weight_bytes("auto") - model.weight_bytes("auto", encoder=False) == 2 * model.vision_params
    assert 0.4e9 < model.vision_params < 0.5e9


def test_drafts_are_apart() -> None:
    """The multi-token-prediction layer is 4.7 GiB of Qwen3.5-122B; of the 27B it is a dense layer and a projection."""
    model = model_of(shapes.QWEN35_27B)
    assert len(model.mtp) == 1
    attention = 5120 * 256 * (2 * 24 + 2 * 4 + 24)
    assert model.draft_weight_bytes("bf16") == 2 * (attention + 3 * 5120 * 17408 + 2 * 5120**2)
