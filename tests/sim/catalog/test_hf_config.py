import json
from pathlib import Path
from typing import Any

import public_shapes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.catalog import Model, load_model
from sim.catalog.config import read_config
from sim.catalog.config.families import FAMILIES, HINTS
from sim.catalog.layers import AttentionKv
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


def test_a_window_that_is_switched_on_is_one(tmp_path: Path) -> None:
    """The same key, used."""
    model = load_model(written(tmp_path, sliding_window=4096, use_sliding_window=True))
    assert set(model.kv_layers) == {(AttentionKv(8, 128, 128, window_tokens=4096),)}


def test_the_index_beside_a_config_gives_the_bytes(tmp_path: Path) -> None:
    """The checkpoint's own total wins over the shape, and is split as the shape is."""
    file = written(tmp_path)
    by_shape = load_model(file)
    total = 8_044_982_000
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}}))
    model = load_model(file)
    assert model.weight_bytes("auto") == total
    assert model.weight_bytes("auto", 2) == total // 2
    assert model.weight_bytes("bf16") == by_shape.weight_bytes("bf16")


@pytest.mark.parametrize("total", [0, -5, 1.5, "8 GB", None, True, 10**9, 10**12, 10**300])
def test_an_index_that_cannot_be_is_named(tmp_path: Path, total: object) -> None:
    """No number of bytes, or far from what the shape weighs."""
    file = written(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}}))
    with pytest.raises(CatalogError, match=r"index\.json.*total_size") as caught:
        load_model(file)
    assert "\n" not in str(caught.value)


def test_the_quantisation_may_lie_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Modelopt writes hf_quant_config.json beside the config."""
    file = written(tmp_path)
    settings = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": settings}))
    model = load_model(file)
    assert (model.weight_dtype, model.kv_cache_dtype) == ("nvfp4", "fp8")
    assert model.weight_bytes("auto") == model.weight_bytes("nvfp4")


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 200_000, "nested too deeply|is not JSON"),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"", "is not JSON"),
        (b" " * (16 * 2**20 + 1), "larger than 16 MiB"),
    ],
)
def test_a_file_that_is_no_config_is_refused_before_it_is_read_far(tmp_path: Path, content: bytes, said: str) -> None:
    """Noise, another encoding, deep nesting, a number of thousands of digits."""
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(CatalogError, match=said) as caught:
        load_model(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("called", ["a\nb", "\x1b[31m", "\ud800", "", 7, None])
def test_a_name_that_cannot_be_shown_is_the_folders(tmp_path: Path, called: object) -> None:
    """Control characters and half a surrogate pair never reach the terminal."""
    assert load_model(written(tmp_path, _name_or_path=called)).name == tmp_path.name


def test_a_folder_without_a_config_says_so(tmp_path: Path) -> None:
    """The file that is missing is named."""
    with pytest.raises(CatalogError, match=r"config\.json: cannot be read"):
        load_model(tmp_path)


_WORDS = st.sampled_from(
    [
        "full_attention",
        "sliding_attention",
        "linear_attention",
        "fp8",
        "awq",
        "yarn",
        "M*-",
        "llama",
        "gemma4",
        "",
        "x" * 999,
    ]
)
_NUMBERS = st.sampled_from(
    [0, -1, 1, 2, 3, 7, 64, 10**9, 10**30, -(10**30), 1e308, -1e308, float("nan"), float("inf"), 0.5]
)
_ATOMS = st.one_of(st.none(), st.booleans(), _NUMBERS, _WORDS)
_VALUES = st.one_of(
    _ATOMS,
    st.lists(_ATOMS, max_size=4),
    st.dictionaries(
        st.sampled_from(["quant_method", "bits", "type", "factor", "num_heads", "head_dim"]), _ATOMS, max_size=4
    ),
)
_CONFIGS = [
    QWEN3_4B,
    *(value for name, value in vars(public_shapes).items() if name.isupper() and "model_type" in value),
]
_KEYS = sorted(
    {key for config in _CONFIGS for key in (*config, *config.get("text_config", {}))}
    | set(HINTS)
    | {"layer_types", "quantization_config", "rope_scaling", "block_configs", "moe_layer_freq", "indexer_types"}
    | {"mamba_n_heads", "mamba_d_state", "conv_L_cache", "linear_attention", "vision_config", "sliding_window_pattern"}
)


@given(
    config=st.sampled_from(_CONFIGS),
    changes=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4),
    dropped=st.lists(st.sampled_from(_KEYS), max_size=2),
    family=st.none() | st.sampled_from(sorted(FAMILIES)),
)
@settings(max_examples=300, deadline=None)
def test_any_config_is_a_model_or_one_clear_line(
    config: dict[str, Any], changes: dict[str, Any], dropped: list[str], family: str | None
) -> None:
    """Whatever is changed, dropped or called something else: never another exception, never a wrong type."""
    inner = config.get("text_config", config) | changes | ({} if family is None else {"model_type": family})
    inner = {key: value for key, value in inner.items() if key not in dropped}
    try:
        model = Model(name="any", **read_config("config.json", config | {"text_config": inner}))
    except CatalogError as error:
        message = str(error)
        assert message.startswith("config.json: ")
        assert "\n" not in message
        assert len(message) < 500
        return
    assert len(model.kv_layers) == model.num_hidden_layers
    for dtype in ("auto", "bf16"):
        assert 0 < model.weight_bytes(dtype) < 2**80
    assert model.kv_bytes_per_token("bf16") >= 0
    assert model.active_linear_params <= model.linear_params


def test_a_state_of_an_unknown_type_is_an_error_that_names_its_key() -> None:
    """Not a failure later, where its bytes are counted."""
    config = public_shapes.QWEN35_27B["text_config"]
    with pytest.raises(CatalogError, match="mamba_ssm_dtype 'float8' is not one of"):
        read_config("config.json", {**config, "mamba_ssm_dtype": "float8"})
