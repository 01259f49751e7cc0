"""The ledger against what engines printed: `shared/data/capacity_cases` and the start-up facts beside it."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrate.validation.memory_cases import read_memory_cases
from calibrate.validation.memory_report import bars
from calibrate.validation.memory_scores import Score, score
from sim.catalog import load_gpu, load_model
from sim.memory import MemoryLedger, MemorySettings, memory_ledger
from sim.units import GIB

CASES = Path(__file__).parents[4] / "shared" / "data" / "capacity_cases" / "cases.jsonl"
pytestmark = pytest.mark.skipif(not CASES.exists(), reason=f"{CASES} is not here")


@pytest.fixture(scope="module")
def scores() -> dict[str, Score]:
    """Every case that can be asked, answered."""
    cases, _ = read_memory_cases(CASES)
    return {case.id: score(case) for case in cases}


def test_the_bars_hold(scores: dict[str, Score]) -> None:
    """Tokens, concurrency, verdicts, lengths, KV memory and its range, over all cases that tell."""
    found = bars(list(scores.values()))
    assert [str(bar) for bar in found if not bar.holds] == []
    asked = {"tokens": 20, "concurrency": 12, "starts": 12, "largest": 4, "KV": 35}
    for bar in found:
        assert bar.of >= asked[bar.name.split()[0]], bar


@pytest.mark.parametrize(
    ("case", "groups", "blocks_per_request"),
    [
        ("qwen3-next-80b-h200-tp2", 4, 482 + 3),  # states alone
        ("qwen38-27b-fp8-agents-25-games", 4, 84 + 6),  # states twice: prefixes are cached
        ("qwen36-35b-a3b-mtp-hybrid-slots", 4, 241 + 18),  # and once a draft token
        ("gemma4-e2b-l4-021", 5, 512 + 4 * 81),  # windows
        ("gemma4-26b-thor-85", 6, 4096 + 5 * 193),
        ("gemma4-e2b-mi300x", 5, 2048 + 4 * 1025),  # windows that hold everything: two steps in flight
        ("glm53-flash-h200-tp8", 6, 205 + 4 * 2 + 1),  # MLA over states, and keys not yet pooled
    ],
)
def test_requests_take_the_blocks_that_explain_the_print(
    scores: dict[str, Score], case: str, groups: int, blocks_per_request: int
) -> None:
    """Blocks of one max_model_len request, group by group."""
    given = scores[case].given
    assert given is not None
    assert (len(given.layout.groups), given.blocks_per_request) == (groups, blocks_per_request)


@pytest.mark.parametrize(
    ("case", "block_size"),
    [
        ("qwen3-next-80b-h200-tp2", 544),
        ("qwen38-27b-fp8-agents-25-games", 784),
        ("qwen36-35b-a3b-mtp-hybrid-slots", 1088),
        ("qwen35-9b-hybrid-16k", 1056),
        ("qwen38-27b-nvfp4-5090-eager-204800-refused", 1568),
        ("qwen35-122b-thor-nomtp", 4176),
        ("glm53-flash-h200-tp8", 640),
        ("glm53-flash-tp4-41gib", 1664),
    ],
)
def test_blocks_are_raised_to_hold_a_state(scores: dict[str, Score], case: str, block_size: int) -> None:
    """Tokens of a block, printed or implied by the print."""
    given = scores[case].given
    assert given is not None
    assert {group.block_size for group in given.layout.groups if group.layers} == {block_size}


def test_a_version_can_turn_a_start_into_a_refusal(scores: dict[str, Score]) -> None:
    """Gemma 4 31B with 49 GiB of KV starts on 0.25 and not on 0.26: windows reserve for two steps in flight."""
    case = scores["gemma4-31b-fp8-v0251-v026-need"].case
    gpu, model, newer = load_gpu("RTX PRO 6000"), case.model, case.settings
    older = replace(newer, vllm_version="0.25.1")
    assert memory_ledger(gpu, model, older).starts
    assert not memory_ledger(gpu, model, newer).starts


def test_the_router_runs_out_of_states(scores: dict[str, Score]) -> None:
    """796 blocks, 19 a short request: 41 run, whatever max_num_seqs 128 promises."""
    given = scores["qwen36-35b-a3b-mtp-hybrid-slots"].given
    assert given is not None
    assert given.num_gpu_blocks // given.layout.blocks_for(1) == 41


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
    """Median error 0.7 % over 22 (1.6 % over the 16 that fitted nothing); worst 19 %, the rest under 6 %.

    The worst is vLLM 0.10.1 with a quarter of an A100: its profile run had no sampling peak, which is a
    quarter of that small KV cache. The next, vLLM 0.23 on an H100, leaves less than nothing for activations:
    its utilisation was probably not the 0.9 stated.
    """
    errors = [
        abs(account(gpu, model, settings).kv_bytes / GIB / seen - 1) for _, gpu, model, settings, seen in STARTUPS
    ]
    assert statistics.median(errors) < 0.01
    assert statistics.median(errors[MADE_BY_FIT:]) < 0.02
    assert sorted(errors)[-2] < 0.06
    assert max(errors) < 0.20


def test_the_printed_range_holds_all_startups_but_one() -> None:
    """Its ends were widened until it did, so this guards against narrowing them; it proves no coverage."""
    outside = [
        name
        for name, gpu, model, settings, seen in STARTUPS
        if not (it := account(gpu, model, settings).rank.kv_bytes).low / GIB <= seen <= it.high / GIB
    ]
    assert outside == ["residency-vllm"]


@pytest.mark.parametrize(
    ("kv_cache_dtype", "share", "document_gb", "document_tokens"),
    [("bf16", 0.9, 13.0, 89_000), ("fp8", 0.9, 13.0, 178_000), ("tq4", 0.8, 10.6, 275_000)],
)
def test_the_founding_documents_l4(kv_cache_dtype: str, share: float, document_gb: float, document_tokens: int) -> None:
    """Qwen3-4B with fp8 weights on an L4: how far the derived KV memory is from the document's.

    The document divides a nominal 24 GB: 21.6 GB of budget less 8.6 GB for weights and the rest. CUDA shows
    22.03 GiB, so the budget is 21.3 GB, and the ledger's rest is 6.1 GB (weights 4.4) at default limits: 15.2
    GB of KV against 13.0, 17 % more (23 % at 0.8). With a budget of 32,768 tokens a step, which "chunked
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
    span = whole_prefill.rank.kv_bytes
    assert span.low / 1e9 < document_gb < span.high / 1e9
    assert 1.05 < whole_prefill.kv_bytes / 1e9 / document_gb < 1.10
    assert 1.15 < account("L4", "Qwen3-4B", settings).kv_bytes / 1e9 / document_gb < 1.24
    given = account("L4", "Qwen3-4B", settings | {"kv_cache_memory_bytes": round(document_gb * 1e9)})
    assert given.kv_cache_tokens == pytest.approx(document_tokens, rel=0.01)
