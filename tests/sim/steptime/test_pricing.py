"""Which profile prices a scenario: by name, by file, the GPU's own or a roofline; and what does not go together."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from device_profiles import round_numbers

from sim.catalog import gpu_names, load_gpu, load_model
from sim.errors import CatalogError, ProfileError
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import Hardware
from sim.steptime.pricing import Engine, device_profile_of, find_gpu, load_any, step_times

L4, H100 = load_gpu("L4"), load_gpu("H100")
MODEL = load_model("Qwen3-4B")
BATCH = BatchShape(8, 8, 0.0, 8, 8000)


def write(folder: Path, **changes: Any) -> str:
    """Write the profile of round numbers, changed, and return its path."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(msgspec.to_builtins(round_numbers(**changes))), encoding="utf-8")
    return str(path)


def test_a_device_profile_in_a_file_prices_what_the_engine_asks_for(tmp_path: Path) -> None:
    """Its name and provenance come along; types, GPUs and graphs are the engine's."""
    priced = step_times(write(tmp_path), L4, MODEL, Engine("fp8", "fp8", 2, max_num_seqs=64))
    by_hand = device_step_time_model(
        round_numbers(), L4, MODEL, "fp8", "fp8", tensor_parallel_size=2, cuda_graph_tokens=128
    )
    assert (priced.name, priced.provenance.made_by) == ("round", "a test")
    assert priced.steps.seconds(BATCH) == by_hand.seconds(BATCH)
    assert priced.frontend == round_numbers().frontend


@pytest.mark.parametrize(
    ("seqs", "eager", "tokens"), [(64, False, 128), (256, False, 512), (1024, False, 512), (64, True, 0)]
)
def test_graphs_hold_twice_max_num_seqs_up_to_512_and_nothing_when_eager(
    *, seqs: int, eager: bool, tokens: int
) -> None:
    """As vLLM captures them."""
    assert Engine(max_num_seqs=seqs, enforce_eager=eager).cuda_graph_tokens == tokens


def test_auto_is_the_shipped_profile_of_the_gpu_else_a_roofline() -> None:
    """Found under any of the card's names, and never another card's."""
    assert step_times("auto", H100, MODEL, Engine()).name == "h100"
    assert step_times("auto", L4, MODEL, Engine()).name == "l4"
    bare = load_gpu("A100-40GB-PCIe")
    assert device_profile_of(bare) is None
    assert step_times("auto", bare, MODEL, Engine()).provenance.kind == "roofline"
    for gpu in map(load_gpu, gpu_names()):
        if name := device_profile_of(gpu):
            assert load_any(name).gpu == gpu.name


@pytest.mark.parametrize(
    ("profile", "engine", "said"),
    [
        ("h100", Engine(), "profile 'h100' is of gpu H100-80GB-SXM, the scenario asks for L4"),
        ("mine", Engine("int4"), "profile 'round' has no linear for int4; it has bf16, fp8"),
        ("mine", Engine(tensor_parallel_size=8), "profile 'round' has no links for tensor_parallel_size 8; it has 2"),
        ("roofline", Engine(tensor_parallel_size=2), "prices one GPU, not tensor_parallel_size 2"),
        ("l4-qwen3-4b-fp8", Engine("fp8", tensor_parallel_size=2), "prices one GPU, not tensor_parallel_size 2"),
        ("l4-qwen3-4b-fp8", Engine("bf16"), "is of weight_dtype fp8, the scenario asks for bf16"),
        ("l4-qwen3-4b", Engine(), "did you mean 'l4-qwen3-4b-fp8'?"),
        ("none.yaml", Engine(), "none.yaml: no such file"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    tmp_path: Path, profile: str, engine: Engine, said: str
) -> None:
    """With what the profile is of, and what was asked for."""
    with pytest.raises(ProfileError) as caught:
        step_times(write(tmp_path) if profile == "mine" else profile, L4, MODEL, engine)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_nobody_catalogued_is_found_in_its_own_profile(tmp_path: Path) -> None:
    """By its exact name and with that profile only."""
    seen = Hardware(memory_bytes=2**34, bandwidth_bytes_per_s=300e9, flops_per_s=160e12, source="its own rows")
    path = write(tmp_path, gpu="my box", hardware=seen)
    gpu = find_gpu("my box", path)
    assert (gpu.name, gpu.bandwidth_bytes_per_s, gpu.memory_bytes) == ("my box", 300e9, 2**34)
    assert step_times(path, gpu, MODEL, Engine("bf16")).steps.seconds(BATCH) > 0
    for name, profile in (("my box", "auto"), ("my box", "roofline"), ("my box", "h100"), ("other", path)):
        with pytest.raises(CatalogError, match="is not in the catalog"):
            find_gpu(name, profile)
