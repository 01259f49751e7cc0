import json
from pathlib import Path
from typing import Any

import pytest

from sim.catalog import load_model
from sim.errors import CatalogError

QWEN3_4B: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 2560,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
    "sliding_window": None,
    "use_sliding_window": False,
}


def written(folder: Path, **changes: Any) -> Path:
    """Write a Qwen3-4B config.json with some keys changed; a value of ... drops the key."""
    config = {key: value for key, value in (QWEN3_4B | changes).items() if value is not ...}
    file = folder / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


def test_a_config_json_gives_the_catalogued_shape(tmp_path: Path) -> None:
    """File or folder, as text or path: the same numbers as the catalog's own entry."""
    file = written(tmp_path)
    catalogued = load_model("Qwen3-4B")
    for place in (file, str(file), tmp_path, str(tmp_path)):
        model = load_model(place)
        assert model.total_params == catalogued.total_params
        assert model.kv_bytes_per_token("fp8") == catalogued.kv_bytes_per_token("fp8")
        assert model.source == str(file)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding_window 4096"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"kv_lora_rank": 512}, "MLA"),
        ({"mamba_d_state": 16}, "recurrent"),
        ({"linear_num_key_heads": 16}, "recurrent"),
        ({"model_type": "gemma3_text"}, "gemma3_text"),
        ({"model_type": "mistral", "sliding_window": ...}, "sliding_window is missing"),
        ({"text_config": {"hidden_size": 1}}, "multimodal"),
        ({"n_shared_experts": 1}, "shared experts"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2}, "decoder_sparse_step"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
    ],
)
def test_what_is_not_uniform_full_attention_says_so(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """One clear line instead of a KV cache that is wrong by a factor."""
    with pytest.raises(CatalogError, match=said) as caught:
        load_model(written(tmp_path, **changes))
    assert "config.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "num_key_value_heads", "head_dim"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    """Class defaults are not guessed."""
    with pytest.raises(CatalogError, match=key):
        load_model(written(tmp_path, **{key: ...}))


@pytest.mark.parametrize("value", ["36", 0, -3, 1.5, True])
def test_a_value_that_is_no_count_is_named(tmp_path: Path, value: object) -> None:
    """Text, zero and fractions are not numbers of layers."""
    with pytest.raises(CatalogError, match="num_hidden_layers"):
        load_model(written(tmp_path, num_hidden_layers=value))


def test_a_llama_derives_what_its_class_derives(tmp_path: Path) -> None:
    """Without num_key_value_heads every head has its own KV; head_dim is hidden size / heads."""
    changes = {"model_type": "llama", "num_key_value_heads": ..., "head_dim": ...}
    model = load_model(written(tmp_path, **changes))
    assert (model.num_key_value_heads, model.head_dim) == (32, 80)


def test_a_window_that_is_switched_off_is_no_window(tmp_path: Path) -> None:
    """Qwen2.5 carries a window size that it does not use."""
    model = load_model(written(tmp_path, model_type="qwen2", sliding_window=131072, use_sliding_window=False))
    assert model.num_hidden_layers == 36


def test_experts_come_from_either_spelling(tmp_path: Path) -> None:
    """Mixtral says num_local_experts and has experts as wide as its intermediate size."""
    model = load_model(
        written(tmp_path, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, sliding_window=None)
    )
    assert (model.num_experts, model.num_experts_per_tok, model.moe_intermediate_size) == (8, 2, 9728)


@pytest.mark.parametrize(
    ("quantization", "weight_dtype"),
    [({"quant_method": "fp8"}, "fp8"), ({"quant_method": "awq", "bits": 4}, "int4"), (None, "bf16")],
)
def test_auto_means_the_checkpoints_own_weights(
    tmp_path: Path, quantization: dict[str, Any] | None, weight_dtype: str
) -> None:
    """A quantised checkpoint is not counted as 16-bit."""
    model = load_model(written(tmp_path, quantization_config=quantization))
    assert model.weight_bytes("auto") == model.weight_bytes(weight_dtype)


def test_a_file_that_is_missing_or_no_json_is_named(tmp_path: Path) -> None:
    """The place comes first."""
    with pytest.raises(CatalogError, match="cannot be read"):
        load_model(str(tmp_path / "config.json"))
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(CatalogError, match="is not JSON"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CatalogError, match="one JSON object"):
        load_model(tmp_path)
