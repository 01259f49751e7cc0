from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.catalog import gpu_names, load_gpu, load_model
from sim.memory import MemorySettings, SglangSettings, memory_ledger, sglang_pools
from sim.memory.remedies import Remedy, remedies_of
from sim.memory.sglang_remedies import sglang_remedies_of
from sim.units import GIB

MODELS = ("Qwen3-4B", "Qwen3-8B", "gpt-oss-120b", "Qwen3.5-27B", "Llama-3.3-70B-Instruct", "DeepSeek-V3")


def remedies(gpu: str, model: str, **settings: object) -> dict[str, Remedy]:
    """Return the remedies by their flag."""
    found = remedies_of(load_gpu(gpu), load_model(model), MemorySettings(**settings))  # type: ignore[arg-type]
    return {remedy.flag: remedy for remedy in found}


@given(gpu=st.sampled_from(gpu_names()), model=st.sampled_from(MODELS), length=st.sampled_from([512, 40_960]))
def test_every_remedy_starts(gpu: str, model: str, length: int) -> None:
    """With the concurrency it names; and there is none where the engine starts anyway."""
    settings = MemorySettings(max_model_len=length)
    before = memory_ledger(load_gpu(gpu), load_model(model), settings)
    found = remedies_of(load_gpu(gpu), load_model(model), settings)
    assert not (before.starts and found)
    for remedy in found:
        then = memory_ledger(load_gpu(gpu), load_model(model), remedy.settings)
        assert then.starts
        assert then.max_concurrency == remedy.max_concurrency
        assert then.limits.max_model_len == remedy.max_model_len


def test_the_length_is_the_largest_and_the_cheapest_comes_first() -> None:
    """An 8B model at its full 40,960 tokens is too much for an L4; 25,216 are not."""
    found = remedies("L4", "Qwen3-8B")
    assert [flag.split()[0] for flag in found] == [
        "--max-model-len",
        "--kv-cache-dtype",
        "--quantization",
        "a",
        "--tensor-parallel-size",
    ]
    flag, remedy = next(iter(found.items()))
    longer = replace(remedy.settings, max_model_len=remedy.max_model_len + 1)
    assert flag == f"--max-model-len {remedy.max_model_len}"
    assert not memory_ledger(load_gpu("L4"), load_model("Qwen3-8B"), longer).starts


def test_the_utilization_is_the_smallest_that_starts() -> None:
    """A hundredth less is refused."""
    found = remedies("H100", "gpt-oss-120b", vllm_version="0.19.0")
    remedy = next(one for flag, one in found.items() if flag.startswith("--gpu-memory-utilization"))
    less = replace(remedy.settings, gpu_memory_utilization=remedy.settings.utilization - 0.01)
    assert not memory_ledger(load_gpu("H100"), load_model("gpt-oss-120b"), less).starts


def test_memory_that_others_hold_asks_for_a_smaller_share() -> None:
    """18 of 22.03 GiB free are a share of 0.81."""
    assert next(iter(remedies("L4", "Qwen3-4B", free_bytes_at_start=18 * GIB))) == "--gpu-memory-utilization 0.81"


def test_no_type_is_named_that_the_gpu_or_the_checkpoint_has_not() -> None:
    """A T4 stores no fp8, Hopper no 4-bit KV, and gpt-oss is in 4 bits already."""
    assert not [flag for flag in remedies("T4", "Qwen3-8B") if "fp8" in flag]
    assert not [flag for flag in remedies("H100", "gpt-oss-120b") if "4-bit" in flag or "quantization" in flag]
    hopper, blackwell = (
        remedies(gpu, "Qwen3-8B", kv_cache_dtype="fp8", kv_cache_memory_bytes=2 * GIB, max_model_len=40_000)
        for gpu in ("H100", "B200")
    )
    assert "--kv-cache-dtype nvfp4" not in hopper
    assert "--kv-cache-dtype nvfp4" in blackwell


def test_given_blocks_leave_only_the_length_to_change() -> None:
    """What an engine printed does not grow with its flags."""
    assert list(remedies("L4", "Qwen3-4B", num_gpu_blocks_override=101)) == ["--max-model-len 1600"]


@pytest.mark.parametrize(("gpu", "model"), [("L4", "Qwen3-8B"), ("T4", "Qwen3-8B"), ("RTX 5090", "Qwen3.5-27B")])
def test_sglangs_remedies_hold_one_request(gpu: str, model: str) -> None:
    """Each of them, of the length it names."""
    card, shape = load_gpu(gpu), load_model(model)
    found = sglang_remedies_of(card, shape, MemorySettings(), SglangSettings())
    assert found
    for remedy in found:
        assert remedy.max_concurrency >= 1
        if not remedy.flag.startswith("--mem"):
            then = sglang_pools(card, shape, remedy.settings, SglangSettings())
            assert then.max_concurrency == remedy.max_concurrency


def test_sglang_that_holds_one_request_needs_no_remedy() -> None:
    """Nothing is advised without need."""
    assert not sglang_remedies_of(load_gpu("H200"), load_model("Qwen3-8B"), MemorySettings(), SglangSettings())
