"""Posted numbers, put back into lines like those they stood in, are read as they were: `shared/data/capacity_cases`."""

import json
from pathlib import Path
from typing import Any

import pytest
from startup_log_facts import gib

from sim.startup_log import RankFacts, StartupFacts, parse_lines

CASES = Path(__file__).parents[4] / "shared" / "data" / "capacity_cases" / "cases.jsonl"

# What a case states: the line it was posted from, and where the reader puts it.
VLLM_LINES = {
    "available_kv_gib": ("Available KV cache memory: {} GiB", "kv_bytes"),
    "kv_cache_size_gib": ("Memory profiling results: kv_cache_size={}GiB gpu_memory_utilization=0.90", "kv_bytes"),
    "model_loading_gib": ("Model loading took {} GiB memory and 9.1 seconds", "weights_bytes"),
    "weights_gb_logged": ("Loading model weights took {} GB", "weights_bytes"),
    "weights_gib": ("Actual usage is {} GiB for weight, ", "weights_bytes"),
    "consumed_weights_plus_nontorch_gib": (
        "Actual usage is {} GiB for consumed memory (weights + non-torch)",
        "weights_and_non_torch_bytes",
    ),
    "peak_activation_gib": ("2.00 GiB for weight, {} GiB for peak activation, ", "activation_bytes"),
    "non_torch_gib": ("{} GiB for non-torch memory, and 1.0 GiB for CUDAGraph memory.", "non_torch_bytes"),
    "non_torch_memory_gib": ("Memory profiling results: non_torch_memory={}GiB", "non_torch_bytes"),
    "peak_torch_memory_gib": ("Memory profiling results: peak_torch_memory={}GiB", "peak_torch_bytes"),
    "total_gpu_memory_gib": ("Memory profiling results: total_gpu_memory={}GiB", "total_bytes"),
    "cuda_graph_gib": ("Graph capturing finished in 9 secs, took {} GiB", "graph_bytes"),
    "cuda_graph_estimated_gib": ("Estimated CUDA graph memory: {} GiB total", "graph_estimate_bytes"),
    "budget_gib": ("Desired GPU memory utilization is (0.9, {} GiB).", "budget_bytes"),
    "gpu_total_gib": ("Free memory on device cuda:0 (9.00/{} GiB) on startup.", "total_bytes"),
    "free_on_startup_gib": ("Free memory on device ({}/191.69 GiB) on startup.", "free_at_start_bytes"),
    "kv_cache_tokens": ("GPU KV cache size: {:,} tokens", "tokens"),
    "kv_cache_tokens_logged": ("GPU KV cache size: {:,} tokens", "tokens"),
    "num_gpu_blocks": ("# GPU blocks: {}, # CPU blocks: 2048", "num_gpu_blocks"),
    "max_concurrency_x": ("Maximum concurrency for 32,768 tokens per request: {}x", "max_concurrency"),
    "suggested_kv_cache_memory_bytes_fit": (
        "Replace gpu_memory_utilization config with `--kv-cache-memory={}` (9.1 GiB) to fit into requested memory",
        "kv_to_fit_bytes",
    ),
    "kv_cache_bytes_in_use": ("Current kv cache memory in use is {} bytes.", "kv_bytes"),
}
SGLANG_LINES = {
    "kv_tokens": ("max_total_num_tokens={}, chunked_prefill_size=8192, max_prefill_tokens=16384", "tokens"),
    "avail_mem_before_gb": ("Load weight begin. avail mem={} GB", "free_before_load_bytes"),
    "avail_mem_after_weights_gb": ("Load weight end. type=M, avail mem={} GB", "free_after_load_bytes"),
    "avail_mem_after_pool_gb": ("Memory pool end. avail mem={} GB", "free_after_pool_bytes"),
    "avail_mem_after_graph_gb": (
        "Capture cuda graph end. Time elapsed: 9 s. avail mem={} GB.",
        "free_after_graphs_bytes",
    ),
    "available_gpu_mem_gb": ("max_total_num_tokens=1, context_len=1, available_gpu_mem={} GB", "free_when_ready_bytes"),
    "k_size_gb": ("KV Cache is allocated. #tokens: 9, K size: {} GB, V size: 1.00 GB", "k_bytes"),
    "kv_size_gb": ("KV Cache is allocated. #tokens: 9, KV size: {} GB", "kv_bytes"),
    "mamba_cache_slots": ("Mamba Cache is allocated. max_mamba_cache_size: {}, ", "state_slots"),
    "conv_state_gb": ("Mamba Cache is allocated. conv_state size: {}GB, ", "conv_state_bytes"),
    "ssm_state_gb": ("Mamba Cache is allocated. conv_state size: 0.1GB, ssm_state size: {}GB ", "ssm_state_bytes"),
    "intermediate_ssm_state_gb": ("intermediate_ssm_state_cache size: {}GB ", "intermediate_ssm_bytes"),
    "cuda_graph_gb": ("Capture cuda graph end. Time elapsed: 9 s. mem usage={} GB.", "graph_bytes"),
}
OPENING = {
    "vllm": "INFO Initializing a V1 LLM engine (v0.11.0) with config: model='m', ",
    "sglang": "[2026-02-01 00:05:03] server_args=ServerArgs(model_path='m', tp_size=1)",
}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    """Return every shared case."""
    if not CASES.exists():
        pytest.skip(f"{CASES} is not here")
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def read_alone(line: str, engine: str) -> StartupFacts:
    """Return what one line says."""
    return parse_lines([OPENING[engine], line], "case.log")


def test_every_posted_size_and_count_is_read_back(cases: list[dict[str, Any]]) -> None:
    """Bytes to the printed digits, counts exactly."""
    read = 0
    for case in cases:
        engine = case["engine"]
        lines = {"vllm": VLLM_LINES, "sglang": SGLANG_LINES}.get(engine, {})
        for key, value in case["observed"].items():
            if key not in lines:
                continue
            line, fact = lines[key]
            (rank,) = read_alone(line.format(value), engine).ranks
            in_gib = fact.endswith("_bytes") and isinstance(value, float)
            assert getattr(rank, fact) == (gib(value) if in_gib else value), (case["id"], key)
            read += 1
    assert read > 250


def test_posted_refusals_are_read_back(cases: list[dict[str, Any]]) -> None:
    """The bytes needed and left, and the length that would fit."""
    refused = 0
    for case in cases:
        observed = case["observed"]
        if "required_kv_gib" not in observed or "available_kv_gib" not in observed:
            continue
        length, estimate = case["max_model_len"] or 1, observed.get("estimated_max_model_len", 1)
        facts = read_alone(
            f"ValueError: To serve at least one request with the models's max seq len ({length}), "
            f"({observed['required_kv_gib']} GiB KV cache is needed, which is larger than the available KV cache "
            f"memory ({observed['available_kv_gib']} GiB). Based on the available memory, the estimated maximum model "
            f"length is {estimate}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
            "vllm",
        )
        assert facts.refusal is not None
        assert facts.refusal.needed_bytes == gib(observed["required_kv_gib"])
        assert facts.refusal.available_bytes == gib(observed["available_kv_gib"])
        assert (facts.refusal.max_model_len, facts.refusal.estimated_max_model_len) == (length, estimate)
        refused += 1
    assert refused >= 5


def test_budgets_close_where_every_term_was_posted(cases: list[dict[str, Any]]) -> None:
    """What is not KV is the sum of weights, activation peak and non-torch, within the two decimals of each."""
    terms = ("budget_gib", "available_kv_gib", "model_loading_gib", "peak_activation_gib", "non_torch_gib")
    closed = 0
    for case in cases:
        observed = case["observed"]
        if any(term not in observed for term in terms) or case["engine"] != "vllm":
            continue
        lines = [VLLM_LINES[term][0].format(observed[term]) for term in ("budget_gib", "available_kv_gib")]
        rank: RankFacts | None = parse_lines([OPENING["vllm"], *lines], "case.log").tightest_rank
        assert rank is not None
        assert rank.non_kv_bytes is not None
        parts = observed["model_loading_gib"] + observed["peak_activation_gib"] + observed["non_torch_gib"]
        assert rank.non_kv_bytes == pytest.approx(gib(parts), abs=gib(0.03)), case["id"]
        closed += 1
    assert closed >= 10
