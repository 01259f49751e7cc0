"""Posted start-ups as questions to the ledger: what a case file states, under the ledger's names.

A case file is JSON lines in the format of shared/data/capacity_cases (its README names the fields). Free text is read
for flags; what a source is silent about may be filled in by `CHOSEN`, each with its reason, and is counted as chosen.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sim.catalog import Gpu, Model, gpu_names, load_gpu, load_model
from sim.errors import CatalogError, MemoryLedgerError
from sim.memory import MemorySettings
from sim.memory.versions import parse_version
from sim.units import GIB

_SAME_SIZE = 0.004  # a card is named by its visible memory if one in the catalog shows that within this share
_KV_GIB = ("available_kv_gib", "available_kv_gib_at_32k_config", "kv_cache_size_gib", "kv_cache_gib")
_TOKENS = ("kv_cache_tokens", "kv_cache_tokens_logged", "kv_capacity_tokens")
_WEIGHTS = {
    "awq-int4": "awq",
    "gptq-int4": "gptq",
    "fp8": "fp8",
    "fp8-block": "fp8",
    "nvfp4": "nvfp4",
    "w4a16": "w4a16",
    "mxfp4": "mxfp4",
}
_FLAGS: tuple[tuple[str, str, Any], ...] = (
    (r"(?:-pp|pipeline-parallel-size)[ =]*(\d+)", "pipeline_parallel_size", int),
    (r"VLLM_PP_LAYER_PARTITION=(\d+(?:,\d+)*)", "pipeline_layers", lambda text: tuple(map(int, text.split(",")))),
    (r"max[-_]num[-_]seqs[ =]*(\d+)", "max_num_seqs", int),
    (r"max[-_]num[-_]batched[-_]tokens[ =]*(\d+)", "max_num_batched_tokens", int),
    (r"chunked prefill (\d+)", "max_num_batched_tokens", int),
    (r"num_speculative_tokens[ =]*(\d+)", "num_speculative_tokens", int),
    (r"(\d+) draft tokens?", "num_speculative_tokens", int),
    (r"kv_cache_memory_bytes[ =]*(\d{6,})", "kv_cache_memory_bytes", int),
    (r"KV (\d+) GiB", "kv_cache_memory_bytes", lambda text: int(text) * GIB),
    (r"mamba_ssm_cache_dtype[ =]*(\w+)", "mamba_ssm_cache_dtype", str),
    (r"(--language-model-only)", "language_model_only", bool),
    (
        r"prefix caching (?:on|align)|(?:, |^)prefix caching(?:,|$)|--enable-prefix-caching",
        "enable_prefix_caching",
        None,
    ),
)
_OFF = re.compile(r"prefix caching (?:auto-)?(?:off|disabled)")

# What a source does not say and its figures do not follow without. Versions are the case file's own inference.
CHOSEN: Mapping[str, tuple[str, dict[str, Any]]] = MappingProxyType(
    {
        "qwen3moe-fp8kv-100k": ("model, from its bytes a token", {"model": "Qwen3-30B-A3B"}),
        "qwen3moe-fp8kv-221k-refused": ("model, from its bytes a token", {"model": "Qwen3-30B-A3B"}),
        "unnamed-102gib-32k-2026-01": ("model, from its bytes a token", {"model": "Llama-3.1-8B"}),
        "unnamed-tp2-100k-2025-12": ("model, from its bytes a token", {"model": "Qwen3-14B"}),
        "llava16-mistral7b-h100-0102": ("GPU of its visible memory", {"gpu": "H100"}),
        "tpu-v5e8-llama8b-refused": (
            "model and block size",
            {"model": "Llama-3.1-8B", "block_size": 512, "vllm_version": "0.9.0"},
        ),
        "qwen3-coder-30b-l40s-tp4": ("model of the class", {"model": "Qwen3-Coder-30B-A3B-Instruct"}),
        "gemma4-26b-thor-85": (
            "KV type, step budget",
            {"kv_cache_dtype": "fp8", "max_num_batched_tokens": 2048, "vllm_version": "0.20.0"},
        ),
        "gemma4-e2b-qat-t4": (
            "step budget, version",
            {"max_num_batched_tokens": 4096, "vllm_version": "0.22.0", "gpu": "T4"},
        ),
        "qwen36-35b-a3b-mtp-hybrid-slots": (
            "blocks, from the print",
            {"num_gpu_blocks_override": 796, "speculative_method": "mtp"},
        ),
        "qwen-27b-hybrid-8k-652blocks": ("model, version", {"model": "Qwen3.6-27B", "vllm_version": "0.22.0"}),
        "qwen35-9b-hybrid-16k": ("KV type, prefix caching", {"kv_cache_dtype": "fp8", "enable_prefix_caching": True}),
        "qwen35-122b-thor-nomtp": (
            "KV type, prefix caching",
            {"kv_cache_dtype": "fp8", "enable_prefix_caching": True, "vllm_version": "0.20.0"},
        ),
        "qwen35-122b-thor-mtp": (
            "KV type, prefix caching",
            {"kv_cache_dtype": "fp8", "enable_prefix_caching": True, "vllm_version": "0.20.0"},
        ),
        "qwen38-27b-nvfp4-5090-eager-204800-refused": (
            "KV type, prefix caching",
            {"kv_cache_dtype": "fp8", "enable_prefix_caching": True},
        ),
        "glm53-flash-h200-tp8": ("version, prefix caching", {"vllm_version": "0.30.0", "enable_prefix_caching": True}),
        "glm53-flash-tp4-41gib": (
            "KV type, version",
            {"kv_cache_dtype": "fp8_ds_mla", "vllm_version": "0.30.0", "enable_prefix_caching": False},
        ),
        "h100-gptoss120b-16k": ("utilisation: 0.95 closes", {"gpu_memory_utilization": 0.95}),
        "llama31-8b-3090-20k": ("version", {"vllm_version": "0.6.4"}),
        "llama31-8b-3090-29k-refused": ("version", {"vllm_version": "0.6.4"}),
        "llama31-8b-3090-35k": ("version", {"vllm_version": "0.6.4"}),
        "gemma4-31b-fp8-v0251-v026-need": ("version: the newer of the two", {"vllm_version": "0.26.0"}),
    }
)


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """One posted start-up, with what it printed."""

    id: str
    gpus: tuple[Gpu, ...]  # empty: not named, or not in the catalog
    model: Model
    settings: MemorySettings
    chosen: str  # which settings no source states
    kv_bytes: int | None  # a GPU, as printed: to 0.005 GiB where it was in GiB
    kv_rounding_bytes: int
    tokens: int | None
    max_concurrency: float | None
    concurrency_digits: int
    starts: bool | None
    estimated_max_model_len: int | None
    is_predictable: bool  # plain vLLM on GPUs
    says_budget: bool  # its utilisation, or what was free at start


def read_memory_cases(path: Path) -> tuple[list[MemoryCase], dict[str, str]]:
    """Return the cases that can be asked, and for each other vLLM start-up why not.

    Raises MemoryLedgerError for a file that is no such list.
    """
    cases: list[MemoryCase] = []
    left_out: dict[str, str] = {}
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise MemoryLedgerError(f"{path}: is not a list of cases, a JSON object a line ({error})") from None
    for row in rows:
        if not str(row.get("engine", "")).startswith("vllm") or not _is_startup(row):
            continue
        try:
            cases.append(_case(row))
        except (CatalogError, MemoryLedgerError) as error:
            left_out[row["id"]] = str(error).split(";")[0][:120]
    return cases, left_out


def _is_startup(row: Mapping[str, Any]) -> bool:
    return row["kind"] != "K4" or any(
        key in row["observed"] for key in ("start_ok", "start_ok_v0_26", "max_concurrency_x")
    )


def _case(row: Mapping[str, Any]) -> MemoryCase:
    seen = row["observed"]
    chosen, changes = CHOSEN.get(row["id"], ("", {}))
    changes = dict(changes)
    model = _model(changes.pop("model", row["model"]))
    gpus = _gpus(changes.pop("gpu", row["gpu"]), seen)
    settings = dict(_stated(row, model)) | changes
    if seen.get("start_ok") is False and (free := seen.get("free_on_startup_gib")) and free < seen.get("budget_gib", 0):
        settings["free_bytes_at_start"] = round(free * GIB)
    printed = seen.get("kv_cache_bytes_in_use") or settings.get("kv_cache_memory_bytes")
    gib = next((seen[key] for key in _KV_GIB if key in seen), None)
    kv_bytes = printed if printed is not None else None if gib is None else round(gib * GIB)
    concurrency = seen.get("max_concurrency_x")
    return MemoryCase(
        id=row["id"],
        gpus=gpus,
        model=model,
        settings=MemorySettings(**settings),
        chosen=chosen,
        kv_bytes=kv_bytes,
        kv_rounding_bytes=0 if printed is not None else round(0.005 * GIB),
        tokens=next((seen[key] for key in _TOKENS if key in seen), None),
        max_concurrency=concurrency,
        concurrency_digits=len(str(concurrency).partition(".")[2]) if concurrency is not None else 0,
        starts=seen.get("start_ok", seen.get("start_ok_v0_26")),
        estimated_max_model_len=seen.get("estimated_max_model_len"),
        is_predictable=row["engine"] == "vllm",
        says_budget=row.get("gpu_memory_utilization") is not None or "free_on_startup_gib" in seen,
    )


def _model(text: str | None) -> Model:
    """Return the model a case names; words in brackets say nothing of its shape."""
    if text is None:
        raise MemoryLedgerError("names no model")
    return load_model(re.sub(r"\s*\(.*?\)", "", text).strip().replace(" ", "-"))


def _gpus(text: str | None, seen: Mapping[str, Any]) -> tuple[Gpu, ...]:
    """Return the GPUs a case names, or those whose visible memory it prints; none where it names nothing known."""
    if text is None:
        return ()
    names = [re.sub(r"\s*\(.*?\)", "", part).strip() for part in text.split("+")]
    try:
        return tuple(map(load_gpu, names))
    except CatalogError:
        shown = seen.get("gpu_total_gib") or seen.get("total_gpu_memory_gib") or _in_brackets(text)
        near = [
            gpu for gpu in map(load_gpu, gpu_names()) if shown and abs(gpu.usable_bytes / GIB / shown - 1) < _SAME_SIZE
        ]
        return tuple(near[:1])


def _in_brackets(text: str) -> float | None:
    found = re.search(r"\(([\d.]+) GiB", text)
    return float(found[1]) if found else None


def _stated(row: Mapping[str, Any], model: Model) -> Iterator[tuple[str, Any]]:
    for name in ("max_model_len", "gpu_memory_utilization", "enforce_eager", "block_size"):
        if row.get(name) is not None:
            yield name, row[name]
    if row.get("tp"):
        yield "tensor_parallel_size", row["tp"]
    version = _version(row)
    if version is not None:
        yield "vllm_version", version
    kv_dtype = str(row.get("kv_dtype") or "auto").split()[0]
    yield "kv_cache_dtype", kv_dtype
    if model.scheme is None and row.get("weight_dtype") in _WEIGHTS:
        yield "weight_dtype", _WEIGHTS[row["weight_dtype"]]
    text = str(row.get("other_flags") or "")
    for pattern, name, read in _FLAGS:
        if found := re.search(pattern, text):
            yield name, True if read is None else read(found[1])
    if _OFF.search(text):
        yield "enable_prefix_caching", False


def _version(row: Mapping[str, Any]) -> str | None:
    """Return the version a case prints, or infers from the log's form; the first it names."""
    texts: Sequence[str] = (
        str(row.get("engine_version") or ""),
        str(row.get("notes") or "").partition("Version not printed")[2],
    )
    for text in texts:
        if found := re.search(r"\b(\d+\.\d+(?:\.\d+)?)", text):
            parse_version(found[1])
            return found[1]
    return "0.11.0" if "latest" in str(row.get("notes") or "") else None
