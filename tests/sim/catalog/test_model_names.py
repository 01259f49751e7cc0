"""Names as people paste them."""

import pytest

from sim.catalog import load, load_model
from sim.catalog.entries import fold, index_of, read_entries
from sim.catalog.load import _expanded
from sim.errors import CatalogError


@pytest.mark.parametrize(
    ("pasted", "name", "scheme"),
    [
        ("Qwen/Qwen3-14B", "Qwen3-14B", None),
        ("someone/Qwen3-14B", "Qwen3-14B", None),
        ("Qwen3-14B-Base", "Qwen3-14B", None),
        ("Qwen3 14B", "Qwen3-14B", None),
        ("Qwen/Qwen3-14B-AWQ", "Qwen3-14B", "awq"),
        ("cyankiwi/Qwen3-14B-AWQ-4bit", "Qwen3-14B", "awq"),
        ("Qwen3 14B NVFP4", "Qwen3-14B", "nvfp4"),
        ("nvidia/Qwen3-14B-NVFP4-v2", "Qwen3-14B", "nvfp4"),
        ("RedHatAI/Qwen3-14B-quantized.w4a16", "Qwen3-14B", "w4a16"),
        ("RedHatAI/Qwen3-14B-quantized.w8a8", "Qwen3-14B", "w8a8"),
        ("RedHatAI/Qwen3-14B-FP8-dynamic", "Qwen3-14B", "fp8"),
        ("Qwen/Qwen3-14B-GPTQ-Int4", "Qwen3-14B", "gptq-int4"),
        ("Qwen/Qwen3-14B-GPTQ-Int8", "Qwen3-14B", "gptq-int8"),
        ("unsloth/Qwen3-14B-unsloth-bnb-4bit", "Qwen3-14B", "bnb-4bit"),
        ("unsloth/Qwen3-14B-bnb-4bit", "Qwen3-14B", "bnb-4bit"),
        ("Intel/Qwen3-14B-int4-AutoRound", "Qwen3-14B", "int4-autoround"),
        ("Qwen3-14B-qat-w4a16-ct", "Qwen3-14B", "w4a16"),
        ("Qwen3-14B-INT8", "Qwen3-14B", "int8"),
        ("Qwen3-14B-mxfp4", "Qwen3-14B", "mxfp4"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "Llama-3.1-8B", "bnb-4bit"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "Llama-3.1-70B", "fp8"),
        ("Qwen/Qwen3-4B-Instruct-2507-FP8", "Qwen3-4B-Instruct-2507", "fp8"),
    ],
)
def test_what_does_not_change_the_shape_is_stripped(pasted: str, name: str, scheme: str | None) -> None:
    """Organisation, tuning and quantisation; the last sets the scheme, and `read_as` says so."""
    model = load_model(pasted)
    assert model.name == name
    assert (model.scheme.name if model.scheme else None) == scheme
    if scheme:
        assert model.read_as.startswith(f"{name} with {scheme} weights, from the name")
        assert ("fp8 KV" in model.read_as) == pasted.startswith("nvidia/")
        assert model.weight_bytes("auto") == load_model(name).weight_bytes(scheme)
    assert model.weight_bytes("bf16") == load_model(name).weight_bytes("bf16")


def test_the_catalogs_own_names_are_read_as_nothing_else() -> None:
    """An exact name or alias says nothing about how it was read."""
    for entry in read_entries("models.yaml"):
        for called in (entry["name"], *entry.get("aliases", ())):
            assert load_model(called).read_as is None


@pytest.mark.parametrize(
    "pasted",
    ["Qwen3-15B", "Qwen3-14B-REAP", "Qwen3-AWQ", "AWQ", "-AWQ", "Qwen3", "Qwen3-14B-Coder-FP8", "x" * 5000],
)
def test_no_size_is_ever_guessed(pasted: str) -> None:
    """What is left after stripping must be a name, or the error lists the valid ones on one line."""
    with pytest.raises(CatalogError, match="is not in the catalog") as caught:
        load_model(pasted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pasted", ["", " ", "a\nb", "\0", "a" * 300 + "/b", "Qwen3-4B\x1b[31m"])
def test_a_name_that_is_none_is_one_clear_line(pasted: str) -> None:
    """Neither a path nor a name."""
    with pytest.raises(CatalogError) as caught:
        load_model(pasted)
    assert "\n" not in str(caught.value)


def test_an_entry_may_say_what_its_checkpoint_weighs(monkeypatch: pytest.MonkeyPatch) -> None:
    """checkpoint_gib wins over the shape, weight_dtype names its scheme."""
    entry = dict(index_of("models.yaml")[fold("Qwen3-4B")]) | {"name": "weighed", "weight_dtype": "fp8"}
    entries = {"weighed": entry, "heavier": entry | {"name": "heavier", "checkpoint_gib": 5.0}}
    monkeypatch.setattr(load, "index_of", lambda _file: entries)
    weighed, heavier = load_model("weighed"), load_model("heavier")
    assert weighed.weight_bytes("auto") == weighed.weight_bytes("fp8")
    assert heavier.weight_bytes("auto") == 5 * 2**30


def test_lists_may_be_written_as_repeats() -> None:
    """Three layers of one kind and one of another, twice, and what follows."""
    compact = [{"repeat": 2, "of": ["a", "a", "b"]}, "c", {"repeat": 1, "of": ["d"]}]
    assert _expanded("layer_types", compact) == ["a", "a", "b", "a", "a", "b", "c", "d"]
    assert _expanded("layer_types", ["a", "b"]) == ["a", "b"]
    with pytest.raises(CatalogError, match="layer_types must be of"):
        _expanded("layer_types", [{"repeat": 2}])
