"""The shared capacity cases as settings of the ledger: what each source states, and what was chosen where it is silent.

A version in brackets in the comments is the case file's own inference from the log's form or date. `chosen` names what
the source does not state and the print does not follow without.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.units import GIB

CASES = Path(__file__).parents[4] / "shared" / "data" / "capacity_cases" / "cases.jsonl"


@dataclass(frozen=True)
class Case:
    """One posted start-up."""

    id: str
    gpu: str | None  # None: not named; any GPU will do where the KV memory is given
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    chosen: str = ""  # of the settings: what is not in the source


def _case(id: str, gpu: str | None, model: str, chosen: str = "", **settings: Any) -> Case:  # noqa: A002
    return Case(id, gpu, model, settings, chosen)


LATE_2025: dict[str, Any] = {"vllm_version": "0.11.0", "gpu_memory_utilization": 0.9, "block_size": 128}
V028: dict[str, Any] = {"vllm_version": "0.28.0"}

CASES_READ = (
    _case("llama31-8b-3090-20k", "RTX 3090", "meta-llama/Llama-3.1-8B-Instruct", vllm_version="0.6.4", max_model_len=20_000, gpu_memory_utilization=0.9),
    _case("llama31-8b-3090-29k-refused", "RTX 3090", "meta-llama/Llama-3.1-8B-Instruct", vllm_version="0.6.4", max_model_len=29_000, gpu_memory_utilization=0.9),
    _case("llama31-8b-3090-35k", "RTX 3090", "meta-llama/Llama-3.1-8B-Instruct", vllm_version="0.6.4", max_model_len=35_000, gpu_memory_utilization=0.9),
    _case("v064-vram-regression-qwen72b", "RTX A6000", "Qwen2.5-72B-Instruct-GPTQ-Int4", vllm_version="0.6.4.post1", max_model_len=8_192, gpu_memory_utilization=0.95, enforce_eager=True),
    _case("r1-distill-14b-2x4090", "RTX 4090", "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", vllm_version="0.7.2", tensor_parallel_size=2, max_model_len=131_072, gpu_memory_utilization=0.98),
    _case("qwen3moe-fp8kv-100k", None, "Qwen3-30B-A3B", "model, from its bytes a token", vllm_version="0.10.2", kv_cache_dtype="fp8", max_model_len=100_000),
    _case("qwen3moe-fp8kv-221k-refused", None, "Qwen3-30B-A3B", "model, from its bytes a token", vllm_version="0.10.2", kv_cache_dtype="fp8", max_model_len=221_000),
    _case("qwen3-coder-30b-fp8-pp2-hetero", "RTX 5070 Ti,RTX 5090", "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", vllm_version="0.15.2rc1", pipeline_parallel_size=2, pipeline_layers=(16, 32), max_model_len=262_144, gpu_memory_utilization=0.9),
    _case("qwen3-4b-bf16-5090-128k", "RTX 5090", "Qwen/Qwen3-4B-Instruct-2507", max_model_len=131_072, gpu_memory_utilization=0.92),
    _case("qwen3-4b-fp8-5090-32k", "RTX 5090", "Qwen/Qwen3-4B-Instruct-2507-FP8", max_model_len=32_768, gpu_memory_utilization=0.92),
    _case("qwen3vl-30b-fp8-pro6000", "RTX PRO 6000", "Qwen3-VL-30B-A3B-FP8", vllm_version="0.20.2", max_model_len=32_768, gpu_memory_utilization=0.7, max_num_seqs=4),
    _case("qwen3vl-4b-fp8-pro6000-8k", "RTX PRO 6000", "Qwen3-VL-4B-Instruct-FP8", vllm_version="0.20.2", max_model_len=8_192, gpu_memory_utilization=0.15),
    _case("qwen3-14b-fp16-l40s", "L40S", "Qwen/Qwen3-14B", max_model_len=40_960, **V028),
    _case("qwen3-14b-awq-l40s", "L40S", "Qwen/Qwen3-14B-AWQ", max_model_len=40_960, **V028),
    _case("qwen3-14b-awq-l40s-maxnumseqs8", "L40S", "Qwen/Qwen3-14B-AWQ", max_model_len=1_024, gpu_memory_utilization=0.95, max_num_seqs=8, max_num_batched_tokens=8_192, **V028),
    _case("qwen3-14b-awq-l4-single", "L4", "Qwen/Qwen3-14B-AWQ", max_model_len=40_960, **V028),
    _case("qwen3-14b-awq-l4-tp2", "L4", "Qwen/Qwen3-14B-AWQ", max_model_len=40_960, tensor_parallel_size=2, **V028),
    _case("qwen3-14b-awq-l4-pp2", "L4", "Qwen/Qwen3-14B-AWQ", max_model_len=40_960, pipeline_parallel_size=2, **V028),
    _case("llava16-mistral7b-h100-0102", "H100", "llava-hf/llava-v1.6-mistral-7b-hf", vllm_version="0.10.2", max_model_len=4_096, gpu_memory_utilization=0.9, max_num_batched_tokens=16_384),
    _case("kvcache-watermark-gb200", "GB200", "Qwen/Qwen2.5-7B-Instruct", vllm_version="0.23.0", max_model_len=8_192, max_num_seqs=256),
    _case("glm46-awq-gb10-tp2-uneven", "GB10", "QuantTrio/GLM-4.6-AWQ", vllm_version="0.11.0", tensor_parallel_size=2, max_model_len=16_384, gpu_memory_utilization=0.9, max_num_seqs=1),
    _case("qwen3-coder-30b-l40s-tp4", "L40S", "Qwen3-Coder-30B-A3B-Instruct", "model of that class; version", vllm_version="0.11.0", tensor_parallel_size=4, max_model_len=32_768, gpu_memory_utilization=0.9),
    _case("lmcache-faq-qwen3-8b", None, "Qwen/Qwen3-8B", "version", vllm_version="0.11.0", max_model_len=40_960),
    _case("lmcache-faq-qwen3-32b-tp2", "H100", "Qwen/Qwen3-32B", "version", vllm_version="0.11.0", tensor_parallel_size=2, max_model_len=40_960),
    _case("lmcache-faq-llama31-70b-tp4", "H100", "meta-llama/Llama-3.1-70B", "version", vllm_version="0.11.0", tensor_parallel_size=4, max_model_len=131_072),
    _case("qwen3-4b-tq-k8v4-xpu", None, "Qwen/Qwen3-4B", "version", vllm_version="0.20.0", kv_cache_dtype="turboquant_k8v4", max_model_len=4_096, gpu_memory_utilization=0.85, max_num_seqs=4, enforce_eager=True),
    _case("qwen3-8b-shape-awq-kv-4x", None, "Qwen3-8B-AWQ", max_model_len=4_096, gpu_memory_utilization=0.9),
    _case("lightonocr-1b-016k", None, "lightonai/LightOnOCR-2-1B", vllm_version="0.15.1", max_model_len=16_384),
    _case("unnamed-102gib-32k-2026-01", None, "Llama-3.1-8B", "model, from its bytes a token", vllm_version="0.11.0", max_model_len=32_768),
    _case("unnamed-tp2-100k-2025-12", None, "Qwen3-14B", "model, from its bytes a token", vllm_version="0.12.0", max_model_len=100_000, tensor_parallel_size=2),
    _case("tpu-v5e8-llama8b-refused", None, "Llama-3.1-8B", "model, from its bytes a token; block size", max_model_len=131_072, block_size=512, vllm_version="0.9.0"),
    _case("h100-qwen3-06b-16k", "H100", "Qwen/Qwen3-0.6B", max_model_len=16_000, **LATE_2025),
    _case("h100-qwen3-06b-32k", "H100", "Qwen/Qwen3-0.6B", max_model_len=32_000, **LATE_2025),
    _case("h100-qwen3-32b-16k", "H100", "Qwen/Qwen3-32B", max_model_len=16_000, **LATE_2025),
    _case("h100-qwen3-32b-32k-refused", "H100", "Qwen/Qwen3-32B", max_model_len=32_000, **LATE_2025),
    _case("h100-qwen3-32b-tp2-16k", "H100", "Qwen/Qwen3-32B", max_model_len=16_000, tensor_parallel_size=2, **LATE_2025),
    _case("h100-llama31-8b-16k", "H100", "meta-llama/Llama-3.1-8B-Instruct", max_model_len=16_000, **LATE_2025),
    _case("h100-llama33-70b-fp8-tp1-refused", "H100", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", max_model_len=16_000, **LATE_2025),
    _case("h100-llama33-70b-fp8-tp2", "H100", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", max_model_len=16_000, tensor_parallel_size=2, **LATE_2025),
    _case("h100-gptoss20b-16k", "H100", "openai/gpt-oss-20b", max_model_len=16_000, **LATE_2025),
    _case("h100-gptoss120b-16k", "H100", "openai/gpt-oss-120b", "utilisation: only 0.95 closes", max_model_len=16_000, **LATE_2025 | {"gpu_memory_utilization": 0.95}),
    _case("gptoss120b-h100-mnbt1024", "H100", "openai/gpt-oss-120b", vllm_version="0.11.0", gpu_memory_utilization=0.95, max_num_batched_tokens=1_024),
    _case("gptoss20b-a100-util065", "A100", "openai/gpt-oss-20b", vllm_version="0.19.0", gpu_memory_utilization=0.65, max_model_len=131_072),
    _case("gemma4-26b-bf16-a100-eager", "A100", "google/gemma-4-26B-A4B", vllm_version="0.19.0", gpu_memory_utilization=0.9, max_model_len=131_072, enforce_eager=True),
    _case("gemma4-26b-thor-85", "Jetson AGX Thor", "gemma-4-26b-a4b-it", "KV type; step budget; version", vllm_version="0.20.0", kv_cache_dtype="fp8", max_num_batched_tokens=2_048, gpu_memory_utilization=0.85, max_model_len=131_072),
    _case("gemma4-e2b-l4-021", "L4", "google/gemma-4-E2B", vllm_version="0.21.0", gpu_memory_utilization=0.9, max_model_len=8_192, enforce_eager=True, language_model_only=True),
    _case("gemma4-e2b-qat-t4", "T4", "google/gemma-4-E2B-it-qat-w4a16-ct", "step budget; version", vllm_version="0.22.0", gpu_memory_utilization=0.9, max_model_len=16_384, max_num_seqs=8, max_num_batched_tokens=4_096),
    _case("gemma4-e2b-mi300x", "MI300X", "google/gemma-4-E2B", vllm_version="0.29.1", gpu_memory_utilization=0.9, max_model_len=32_768),
    _case("gemma4-31b-fp8-v0251-v026-need", "RTX PRO 6000", "gemma-4-31B-it-FP8-dynamic", vllm_version="0.26.0", max_model_len=262_144, kv_cache_dtype="bfloat16", max_num_batched_tokens=32_768, num_speculative_tokens=4),
    _case("qwen3-next-80b-h200-tp2", "H200", "Qwen3-Next-80B-A3B-Instruct", vllm_version="0.11.0", tensor_parallel_size=2, gpu_memory_utilization=0.9, max_model_len=262_144),
    _case("qwen35-2b-hybrid-rtx24", "RTX 4090", "Qwen/Qwen3.5-2B", vllm_version="0.17.1", gpu_memory_utilization=0.5, max_model_len=262_144),
    _case("qwen38-27b-fp8-agents-25-games", "RTX PRO 6000", "Qwen3.8-27B-FP8", vllm_version="0.19.0", gpu_memory_utilization=0.9, max_model_len=65_536, enable_prefix_caching=True, max_num_batched_tokens=8_192),
    _case("qwen36-35b-a3b-mtp-hybrid-slots", "RTX PRO 6000", "Qwen3.6-35B-A3B", "blocks, from the print", vllm_version="0.19.0", gpu_memory_utilization=0.95, max_model_len=262_144, max_num_seqs=128, num_speculative_tokens=5, speculative_method="mtp", enable_prefix_caching=False, num_gpu_blocks_override=796),
    _case("qwen-27b-hybrid-8k-652blocks", None, "Qwen3.6-27B", vllm_version="0.22.0", max_model_len=8_192, enable_prefix_caching=True, max_num_batched_tokens=8_192, mamba_ssm_cache_dtype="float32"),
    _case("qwen35-9b-hybrid-16k", None, "Qwen3.5-9B", "KV type and prefix caching", vllm_version="0.17.0", max_model_len=16_384, enable_prefix_caching=True, kv_cache_dtype="fp8"),
    _case("qwen38-27b-nvfp4-5090-eager-204800-refused", "RTX 5090", "Qwen3.8-27B-NVFP4", "KV type and prefix caching, from the rate", vllm_version="0.27.1", max_model_len=204_800, gpu_memory_utilization=0.9, enforce_eager=True, kv_cache_dtype="fp8", enable_prefix_caching=True),
    _case("qwen38-27b-nvfp4-5090-eager-163840", "RTX 5090", "Qwen3.8-27B-NVFP4", "KV type and prefix caching, from the rate", vllm_version="0.27.1", max_model_len=163_840, enforce_eager=True, kv_cache_dtype="fp8", enable_prefix_caching=True, gpu_memory_utilization=0.9),
    _case("qwen35-122b-thor-nomtp", "Jetson AGX Thor", "Qwen3.5-122B-A10B-NVFP4", "version; KV type and prefix caching", vllm_version="0.20.0", enable_prefix_caching=True, max_model_len=131_072, gpu_memory_utilization=0.85, kv_cache_dtype="fp8"),
    _case("qwen35-122b-thor-mtp", "Jetson AGX Thor", "Qwen3.5-122B-A10B-NVFP4", "version; KV type and prefix caching", vllm_version="0.20.0", enable_prefix_caching=True, max_model_len=262_144, gpu_memory_utilization=0.85, kv_cache_dtype="fp8", num_speculative_tokens=1, speculative_method="mtp"),
    _case("gmu-share-of-total-not-free", "RTX 5080", "Qwen3-30B-A3B", "model: its weights are not what is refused", vllm_version="0.12.0", gpu_memory_utilization=0.92, weight_dtype="nvfp4", free_bytes_at_start=round(14.55 * GIB)),
    _case("qwen3-8b-a100-fp8kv-026", "A100", "Qwen3-8B", vllm_version="0.26.0", enforce_eager=True),
    _case("tandemn-concurrency-256", "A10G", "Qwen/Qwen2.5-7B-Instruct", "version", vllm_version="0.11.0"),
    _case("seed-oss-36b-2xa100", "A100", "ByteDance-Seed/Seed-OSS-36B-Instruct", vllm_version="0.11.2", tensor_parallel_size=2, max_model_len=65_536),
    _case("qwen25-32b-single-gpu-4k", None, "Qwen2.5-32B-Instruct", max_model_len=4_096),
    _case("minimax-m27-tp4", None, "MiniMax-M2.7", max_model_len=131_072, tensor_parallel_size=4, gpu_memory_utilization=0.9),
    _case("deepseek-v32-tp8-pp4", None, "DeepSeek-V3.2", vllm_version="0.14.0", max_model_len=163_840, tensor_parallel_size=8, pipeline_parallel_size=4),
    _case("qwen3-8b-shape-lora-maxnumseqs8-knee", None, "Qwen3-8B", max_model_len=4_096, gpu_memory_utilization=0.9, max_num_seqs=8),
    _case("qwen38-27b-fp8-hybrid-pro6000", "RTX PRO 6000", "Qwen3.8-27B-FP8", vllm_version="0.20.2"),
    _case("gemma4-31b-h100-tp2-deadlock", "H100", "google/gemma-4-31B-it", vllm_version="0.19.1", tensor_parallel_size=2, max_model_len=262_144),
)


def read_cases() -> dict[str, dict[str, Any]]:
    """Return the case file's objects by id."""
    return {one["id"]: one for one in map(json.loads, CASES.read_text(encoding="utf-8").splitlines())}
