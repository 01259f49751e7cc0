"""The ledger against what engines printed: `shared/data/capacity_cases` and the start-up facts beside it."""

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.catalog import load_gpu, load_model
from sim.memory import MemoryLedger, MemorySettings, kv_layout, memory_ledger
from sim.memory.reserves import activation_peak
from sim.units import GIB

CASES = Path(__file__).parents[4] / "shared" / "data" / "capacity_cases" / "cases.jsonl"


@pytest.fixture(scope="module")
def observed() -> dict[str, dict[str, Any]]:
    """Observed numbers by case id."""
    if not CASES.exists():
        pytest.skip(f"{CASES} is not here")
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return {case["id"]: case["observed"] for case in cases}


# case, the model with its KV shape, KV type, tensor parallel, pipeline parallel
TOKEN_CASES = [
    ("qwen3moe-fp8kv-100k", "Qwen3-30B-A3B", "fp8", 1, 1),
    ("qwen3-4b-bf16-5090-128k", "Qwen3-4B", "auto", 1, 1),
    ("qwen3-4b-fp8-5090-32k", "Qwen3-4B", "auto", 1, 1),
    ("qwen3vl-30b-fp8-pro6000", "Qwen3-30B-A3B", "auto", 1, 1),
    ("qwen3vl-4b-fp8-pro6000-8k", "Qwen3-4B", "auto", 1, 1),
    ("qwen3-14b-fp16-l40s", "Qwen3-14B", "auto", 1, 1),
    ("qwen3-14b-awq-l40s", "Qwen3-14B", "auto", 1, 1),
    ("qwen3-14b-awq-l40s-maxnumseqs8", "Qwen3-14B", "auto", 1, 1),
    ("qwen3-14b-awq-l4-single", "Qwen3-14B", "auto", 1, 1),
    ("qwen3-14b-awq-l4-tp2", "Qwen3-14B", "auto", 2, 1),
    ("qwen3-14b-awq-l4-pp2", "Qwen3-14B", "auto", 1, 2),
    ("llava16-mistral7b-h100-0102", "Mistral-7B-v0.3", "auto", 1, 1),
    ("kvcache-watermark-gb200", "Qwen2.5-7B-Instruct", "auto", 1, 1),
    ("qwen3-coder-30b-l40s-tp4", "Qwen3-30B-A3B", "auto", 4, 1),
    ("lmcache-faq-qwen3-8b", "Qwen3-8B", "auto", 1, 1),
    ("lmcache-faq-qwen3-32b-tp2", "Qwen3-32B", "auto", 2, 1),
    ("lmcache-faq-llama31-70b-tp4", "Llama-3.1-70B", "auto", 4, 1),
    ("qwen3-4b-tq-k8v4-xpu", "Qwen3-4B", "turboquant_k8v4", 1, 1),
]


@pytest.mark.parametrize(("case", "name", "kv_cache_dtype", "tensor", "pipeline"), TOKEN_CASES)
def test_tokens_follow_from_kv_bytes(
    observed: dict[str, dict[str, Any]],
    *,
    case: str,
    name: str,
    kv_cache_dtype: str,
    tensor: int,
    pipeline: int,
) -> None:
    """Blocks x 16 from the printed GiB, within 0.2 % (the print has two decimals) of the printed tokens."""
    seen = observed[case]
    sizes = ("available_kv_gib", "available_kv_gib_at_32k_config", "kv_cache_gib")
    kv_gib = next(seen[key] for key in sizes if key in seen)
    whole = load_model(name)
    stage = replace(whole, num_hidden_layers=whole.num_hidden_layers // pipeline)
    layout = kv_layout(stage, kv_cache_dtype, 16, tensor)
    tokens = layout.blocks_in(round(kv_gib * GIB)) * layout.block_size
    assert tokens == pytest.approx(seen["kv_cache_tokens"], rel=0.002)


@pytest.mark.parametrize(
    ("case", "name", "kv_cache_dtype", "max_model_len"),
    [
        ("qwen3-coder-30b-fp8-pp2-hetero", "Qwen3-30B-A3B", "auto", 262_144),
        ("qwen3moe-fp8kv-221k-refused", "Qwen3-30B-A3B", "fp8", 221_000),
    ],
)
def test_refusals_say_what_the_engine_said(
    observed: dict[str, dict[str, Any]], case: str, name: str, kv_cache_dtype: str, max_model_len: int
) -> None:
    """GiB needed as printed; the largest length that fits within 0.1 % of the printed one."""
    seen = observed[case]
    settings = MemorySettings(
        max_model_len=max_model_len,
        kv_cache_dtype=kv_cache_dtype,
        kv_cache_memory_bytes=round(seen["available_kv_gib"] * GIB),
    )
    it = memory_ledger(load_gpu("RTX 5090"), load_model(name), settings)
    assert it.refusal is not None
    assert f"needs {seen['required_kv_gib']:.2f} GiB" in it.refusal
    assert f"{it.largest_max_model_len:,}" in it.refusal
    assert it.largest_max_model_len == pytest.approx(seen["estimated_max_model_len"], rel=0.001)


def test_activation_peaks_as_printed(observed: dict[str, dict[str, Any]]) -> None:
    """The prints the term was fitted to within 1 % (LLaVA 2 %), at vLLM's defaults for an H100."""
    for case, name, parallel in (
        ("h100-llama31-8b-16k", "Llama-3.1-8B", 1),
        ("h100-qwen3-06b-16k", "Qwen3-0.6B", 1),
        ("h100-qwen3-32b-16k", "Qwen3-32B", 1),
        ("h100-llama33-70b-fp8-tp2", "Llama-3.1-70B", 2),
    ):
        peak = activation_peak(load_model(name), 8_192, 1_024, parallel)
        assert peak.likely / GIB == pytest.approx(observed[case]["peak_activation_gib"], rel=0.01)
    llava = activation_peak(load_model("Mistral-7B-v0.3"), 16_384, 1_024)
    seen = observed["llava16-mistral7b-h100-0102"]["peak_activation_gib"]
    assert llava.likely / GIB == pytest.approx(seen, rel=0.02)


# name, GPU, model, settings, observed KV GiB per GPU. From cases.jsonl and facts_kv_cache_startup.csv. Where
# a print does not state them, the limits are the GPU's defaults, and the utilisation is the version's.
LATE_2025: dict[str, Any] = {"gpu_memory_utilization": 0.9, "max_model_len": 16_000, "vllm_version": "0.11.0"}
MADE_BY_FIT = 6  # the first six rows' activation peaks set the sampling term
SMALL: dict[str, Any] = {"max_num_seqs": 128, "max_num_batched_tokens": 2_048}
V015: dict[str, Any] = {"gpu_memory_utilization": 0.9, "vllm_version": "0.15.1", **SMALL}
H200: dict[str, Any] = {
    "weight_dtype": "fp8",
    "kv_cache_dtype": "fp8",
    "vllm_version": "0.14.1",
    "max_num_batched_tokens": 8_192,
}
V028: dict[str, Any] = {"vllm_version": "0.28.0"}
AWQ: dict[str, Any] = {"weight_dtype": "int4", **V028}
STARTUPS: list[tuple[str, str, str, dict[str, Any], float]] = [
    ("h100-llama31-8b-16k", "H100", "Llama-3.1-8B", LATE_2025, 51.38),
    ("h100-qwen3-06b-16k", "H100", "Qwen3-0.6B", LATE_2025, 64.45),
    ("h100-qwen3-32b-16k", "H100", "Qwen3-32B", LATE_2025, 4.45),
    ("h100-qwen3-32b-tp2-16k", "H100", "Qwen3-32B", LATE_2025 | {"tensor_parallel_size": 2}, 34.49),
    (
        "h100-llama33-70b-fp8-tp2",
        "H100",
        "Llama-3.1-70B",
        LATE_2025 | {"tensor_parallel_size": 2, "weight_dtype": "fp8"},
        32.0,
    ),
    (
        "h100-llama33-70b-fp8-tp1-refused",
        "H100",
        "Llama-3.1-70B",
        LATE_2025 | {"weight_dtype": "fp8"},
        -1.44,
    ),
    ("qwen3-14b-fp16-l40s", "L40S", "Qwen3-14B", V028, 11.57),
    ("qwen3-14b-awq-l40s", "L40S", "Qwen3-14B", AWQ, 29.63),
    (
        "qwen3-14b-awq-l40s-maxnumseqs8",
        "L40S",
        "Qwen3-14B",
        AWQ | {"gpu_memory_utilization": 0.95, "max_num_seqs": 8, "max_num_batched_tokens": 8_192},
        31.02,
    ),
    ("qwen3-14b-awq-l4-single", "L4", "Qwen3-14B", AWQ, 9.10),
    ("qwen3-14b-awq-l4-tp2", "L4", "Qwen3-14B", AWQ | {"tensor_parallel_size": 2}, 14.38),
    ("qwen3-4b-bf16-5090-128k", "RTX 5090", "Qwen3-4B", {}, 18.96),
    ("qwen3-4b-fp8-5090-32k", "RTX 5090", "Qwen3-4B", {"weight_dtype": "fp8"}, 22.27),
    ("gtc-doks 0.9", "H200", "Llama-3.1-70B", H200 | {"gpu_memory_utilization": 0.9}, 53.15),
    ("gtc-doks 0.95", "H200", "Llama-3.1-70B", H200 | {"gpu_memory_utilization": 0.95}, 60.14),
    (
        "gtc-doks 128 sequences",
        "H200",
        "Llama-3.1-70B",
        H200 | {"gpu_memory_utilization": 0.9, "max_num_seqs": 128},
        56.39,
    ),
    (
        "LLMServingSim",
        "RTX 4090",
        "Llama-3.1-8B",
        {"gpu_memory_utilization": 0.9, "vllm_version": "0.19.0"},
        41_408 * 131_072 / GIB,
    ),
    ("training llama-2-7b", "H100", "Llama-2-7b", V015, 119_392 * 524_288 / GIB),
    (
        "training mixtral",
        "H100",
        "Mixtral-8x7B",
        V015 | {"tensor_parallel_size": 2},
        440_160 * 65_536 / GIB,
    ),
    (
        "training codellama",
        "H100",
        "CodeLlama-34b",
        V015 | {"tensor_parallel_size": 2},
        425_632 * 98_304 / GIB,
    ),
    (
        "residency-vllm",
        "H100",
        "Qwen3-14B",
        {"gpu_memory_utilization": 0.9, "vllm_version": "0.23.0", "max_num_seqs": 256},
        288_608 * 163_840 / GIB,
    ),
    (
        "dennislee22 test 4",
        "A100",
        "Qwen2.5-7B-Instruct",
        {"gpu_memory_utilization": 0.25, "vllm_version": "0.10.1.1", "max_model_len": 16_384},
        93_872 * 57_344 / GIB,
    ),
]


def account(gpu: str, model: str, settings: dict[str, Any]) -> MemoryLedger:
    """Account for one of the start-ups above."""
    return memory_ledger(load_gpu(gpu), load_model(model), MemorySettings(**settings))


def test_kv_memory_of_posted_startups() -> None:
    """Median error 0.7 % over 22 (1.6 % over the 16 that fitted nothing); worst 19 %, the rest under 5.5 %.

    The worst is vLLM 0.10.1 with a quarter of an A100: its profile run had no sampling peak, which is a
    quarter of that small KV cache. The next, vLLM 0.23 on an H100, leaves less than nothing for activations:
    its utilisation was probably not the 0.9 stated.
    """
    errors = [
        abs(account(gpu, model, settings).kv_bytes / GIB / seen - 1) for _, gpu, model, settings, seen in STARTUPS
    ]
    assert statistics.median(errors) < 0.01
    assert statistics.median(errors[MADE_BY_FIT:]) < 0.02
    assert sorted(errors)[-2] < 0.055
    assert max(errors) < 0.20


def test_the_printed_range_holds_all_startups_but_one() -> None:
    """Its ends were widened until it did, so this guards against narrowing them; it proves no coverage."""
    outside = [
        name
        for name, gpu, model, settings, seen in STARTUPS
        if not (it := account(gpu, model, settings).kv_bytes_range).low / GIB <= seen <= it.high / GIB
    ]
    assert outside == ["residency-vllm"]


def test_observed_values_are_those_of_the_cases(observed: dict[str, dict[str, Any]]) -> None:
    """The table above copies the case file's KV memory faithfully."""
    compared = 0
    for name, _, _, _, seen in STARTUPS:
        if name in observed:
            numbers = observed[name]
            printed = numbers.get("available_kv_gib", numbers.get("available_kv_gib_at_32k_config"))
            assert seen == printed
            compared += 1
    assert compared == 13


@pytest.mark.parametrize(
    ("kv_cache_dtype", "share", "document_gb", "document_tokens"),
    [("bf16", 0.9, 13.0, 89_000), ("fp8", 0.9, 13.0, 178_000), ("tq4", 0.8, 10.6, 275_000)],
)
def test_the_founding_documents_l4(kv_cache_dtype: str, share: float, document_gb: float, document_tokens: int) -> None:
    """Qwen3-4B with fp8 weights on an L4: how far the derived KV memory is from the document's.

    The document divides a nominal 24 GB: 21.6 GB of budget less 8.6 GB for weights and the rest. CUDA shows
    22.03 GiB, so the budget is 21.3 GB, and the ledger's rest is 6.1 GB (weights 4.4) at default limits: 15.2
    GB of KV against 13.0, 17 % more (21 % at 0.8). With a budget of 32,768 tokens a step, which "chunked
    prefill off" implies, it is 14.0 GB, 7.5 % more (9.5 % at 0.8), and the document's figure is inside the
    range. A scenario should give kv_cache_tokens. Tokens follow from the document's own bytes to 1 %.
    """
    settings: dict[str, Any] = {
        "gpu_memory_utilization": share,
        "max_model_len": 32_768,
        "weight_dtype": "fp8",
        "kv_cache_dtype": kv_cache_dtype,
        "vllm_version": "0.20.2",
    }
    whole_prefill = account("L4", "Qwen3-4B", settings | {"max_num_batched_tokens": 32_768})
    span = whole_prefill.kv_bytes_range
    assert span.low / 1e9 < document_gb < span.high / 1e9
    assert 1.05 < whole_prefill.kv_bytes / 1e9 / document_gb < 1.10
    assert 1.15 < account("L4", "Qwen3-4B", settings).kv_bytes / 1e9 / document_gb < 1.22
    given = account("L4", "Qwen3-4B", settings | {"kv_cache_memory_bytes": round(document_gb * 1e9)})
    assert given.kv_cache_tokens == pytest.approx(document_tokens, rel=0.01)
