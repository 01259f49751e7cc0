import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.catalog import load_model, model_names
from sim.catalog.entries import read_entries
from sim.errors import CatalogError, MemoryLedgerError
from sim.units import GIB

FACTS = Path(__file__).parents[4] / "shared" / "data" / "measurements" / "facts_model_shapes.csv"


@pytest.mark.parametrize("name", model_names())
def test_every_model_loads_with_a_source(name: str) -> None:
    """Each entry says where it comes from and has a sane shape."""
    model = load_model(name)
    assert len(model.source) > 10
    assert model.active_linear_params <= model.linear_params
    assert model.weight_bytes("int4") < model.weight_bytes("fp8") < model.weight_bytes("bf16")


def test_parameter_and_kv_figures_equal_the_collected_facts() -> None:
    """Totals within 0.1 % (norms and biases are left out), KV bytes exactly, every uniform model present."""
    if not FACTS.exists():
        pytest.skip(f"{FACTS} is not here")
    with FACTS.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not row["sliding_window_pattern"]]
    checked = 0
    for row in rows:
        if row["mla_kv_lora_rank"]:
            continue
        model = load_model(row["model"])
        assert model.kv_bytes_per_token("bf16") == int(row["kv_bytes_per_token_bf16"])
        total_billion = model.total_params / 1e9
        assert total_billion == pytest.approx(float(row["computed_total_params_billion"]), rel=1e-3)
        assert model.max_position_embeddings == int(row["max_position_embeddings"])
        if row["computed_active_params_billion"]:
            active = model.active_linear_params + model.embedding_params + model.lm_head_params
            assert active / 1e9 == pytest.approx(float(row["computed_active_params_billion"]), rel=5e-3)
        checked += 1
    assert checked >= 17


@pytest.mark.parametrize(
    ("name", "weight_dtype", "tensor_parallel_size", "loaded_gib"),
    [
        ("Llama-3.1-8B", "bf16", 1, 14.99),
        ("Qwen3-0.6B", "bf16", 1, 1.12),
        ("Qwen3-32B", "bf16", 1, 61.03),
        ("Qwen3-32B", "bf16", 2, 30.59),
        ("Qwen3-14B", "fp16", 1, 27.52),
        ("Llama-3.1-70B", "fp8", 1, 67.72),
        ("Llama-3.1-70B", "fp8", 2, 33.88),
        ("Qwen3-14B", "int4", 1, 9.44),
    ],
)
def test_weights_take_what_the_engine_says_loading_took(
    name: str, weight_dtype: str, tensor_parallel_size: int, loaded_gib: float
) -> None:
    """Posted "Model loading took" figures, within 1 %."""
    weights = load_model(name).weight_bytes(weight_dtype, tensor_parallel_size)
    assert weights / GIB == pytest.approx(loaded_gib, rel=0.01)


def test_flops_of_qwen3_4b_by_hand() -> None:
    """4 x layers x heads x head_dim a pair; 2 FLOPs a weight and token; the head apart."""
    model = load_model("Qwen/Qwen3-4B")
    assert model.attention_flops_per_pair == 4 * 36 * 32 * 128
    per_layer = 2560 * 128 * (32 + 8 + 8 + 32) + 3 * 2560 * 9728
    assert model.linear_params == 36 * per_layer
    assert model.linear_flops_per_token == 2 * 36 * per_layer
    assert model.head_flops_per_row == 2 * 2560 * 151_936
    assert model.lm_head_params == 0


def test_kv_stops_shrinking_when_gpus_outnumber_kv_heads() -> None:
    """Each GPU holds at least one KV head: 8 heads over 16 GPUs cost what 8 GPUs cost."""
    model = load_model("Qwen3-8B")
    per_gpu = [model.kv_bytes_per_token("bf16", parallel) for parallel in (1, 2, 8, 16)]
    assert per_gpu == [147_456, 73_728, 18_432, 18_432]


@pytest.mark.parametrize("parallel", [3, 5])
def test_gpus_that_do_not_divide_the_heads_are_refused(parallel: int) -> None:
    """An uneven split does not exist in the engine."""
    with pytest.raises(MemoryLedgerError, match=f"tensor_parallel_size {parallel}"):
        load_model("Qwen3-8B").kv_bytes_per_token("bf16", parallel)


def test_an_unknown_model_names_the_nearest_and_never_defaults() -> None:
    """A typo is one line with the name that was meant."""
    with pytest.raises(CatalogError, match=r"model 'Qwen3-4C' .*did you mean 'Qwen3-4B'"):
        load_model("Qwen3-4C")


def test_names_are_found_whatever_their_case() -> None:
    """Qwen/qwen3-4b is Qwen3-4B."""
    assert load_model("qwen/QWEN3-4b").name == "Qwen3-4B"


def test_no_two_models_answer_to_one_name() -> None:
    """An alias that two models share would pick one behind the user's back."""
    called = [n.lower() for e in read_entries("models.yaml") for n in {e["name"], *e["aliases"]}]
    assert len(called) == len(set(called))


@pytest.mark.parametrize(
    "broken",
    [
        {"num_hidden_layers": 0},
        {"vocab_size": -1},
        {"head_dim": 12.5},
        {"num_key_value_heads": 5},
        {"num_experts": 8},
    ],
)
def test_a_shape_that_cannot_be_is_an_error(broken: dict[str, Any]) -> None:
    """The message names the key."""
    with pytest.raises(CatalogError, match=next(iter(broken))):
        replace(load_model("Qwen3-4B"), **broken)


def test_an_unknown_weight_type_lists_the_valid_ones() -> None:
    """fp7 is not a type."""
    with pytest.raises(MemoryLedgerError, match=r"weight_dtype 'fp7' .*did you mean 'fp8'"):
        load_model("Qwen3-4B").weight_bytes("fp7")
