"""Records how the real vLLM lays out the KV cache of catalogued models, for tests/sim/memory/test_recorded_layouts.py.

Needs an environment with vLLM 0.32.0 (the CPU wheel will do: nothing runs on a device), torch and this project:

    python tests/real_engine/record_kv_layouts.py tests/sim/memory/data/vllm_0_32_layouts.jsonl

Grouping, block size under states, blocks, concurrency, refusal and the estimated maximum length are vLLM's own
functions, over the specs of vllm_kv_specs.py.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllm.v1.core import kv_cache_utils as engine
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
from vllm_kv_specs import config_of, specs_of

from sim.catalog import Model, load_model, model_names
from sim.catalog.layers import AttentionKv, RecurrentState
from sim.memory import MemorySettings

KINDS = {
    FullAttentionSpec: "full",
    MLAAttentionSpec: "full",
    SlidingWindowSpec: "window",
    ChunkedLocalAttentionSpec: "chunk",
    MambaSpec: "state",
}
UNRECORDED = "GLM-5.3-Flash"  # its blocks pack unequal pages side by side, which the ledger only comes near
SHARE = 5  # one of so many settings beside the plain ones is recorded


def main(path: Path) -> None:
    """Write a header, then a line for each combination."""
    header = {"source": "vLLM 0.32.0", "recorded_by": "tests/real_engine/record_kv_layouts.py"}
    lines = [json.dumps(header)]
    for name, settings in combinations():
        record = {"model": name, "settings": settings, "engine": answers(name, MemorySettings(**settings))}
        lines.append(json.dumps(record, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n")


def combinations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every kind of model with its plain settings and a share of the others; EVERY_COMBINATION=1: all of them."""
    everything = os.environ.get("EVERY_COMBINATION") == "1"
    seen: set[object] = set()
    for name in model_names():
        model = load_model(name)
        shape = (model.kv_layers, model.mtp_kv)
        if name == UNRECORDED or (shape in seen and not everything):
            continue
        seen.add(shape)
        for position, settings in enumerate(_settings(model)):
            if everything or position == 0 or (position + len(seen)) % SHARE == 0:
                yield name, settings


def _settings(model: Model) -> list[dict[str, Any]]:
    """Return the settings that can matter to a model, the plain ones first."""
    plain = {"max_model_len": min(32_768, model.max_position_embeddings), "max_num_batched_tokens": 8192}
    kinds = [kind for layer in model.kv_layers for kind in layer]
    first = model.num_hidden_layers // 2 - 1
    others: list[dict[str, Any]] = [
        {},
        {"kv_cache_dtype": "fp8"},
        {"block_size": 128},
        {"pipeline_parallel_size": 2},
        {"max_model_len": -1},
    ]
    if len(set(kinds)) > 1 or any(isinstance(kind, AttentionKv) and kind.window_tokens for kind in kinds):
        unequal = {"pipeline_parallel_size": 2, "pipeline_layers": (first, model.num_hidden_layers - first)}
        others += [
            {"block_size": 32, "max_num_batched_tokens": 2048},
            {
                "async_scheduling": False,
                "max_num_batched_tokens": 16_385,
            },  # a token more shows whether a window counts it
            {"enable_prefix_caching": False},
            {"disable_hybrid_kv_cache_manager": True},
            unequal | {"async_scheduling": False},
            {"kv_cache_dtype": "fp8", "enable_prefix_caching": False, "block_size": 64},
        ]
    if len(set(kinds)) > 1 and not model.mtp:
        others.append({"speculative_method": "eagle3", "num_speculative_tokens": 2})
    if model.mtp:
        drafts = {"speculative_method": "mtp"}
        others += [
            drafts | {"num_speculative_tokens": 1},
            drafts | {"num_speculative_tokens": 2, "pipeline_parallel_size": 2},
        ]
        if len(model.mtp) == 1:
            others.append(drafts | {"num_speculative_tokens": 3, "enable_prefix_caching": False})
    for ranks in (2, 4, 8):
        if _divides(model, ranks):
            others += [
                {"tensor_parallel_size": ranks},
                {"tensor_parallel_size": ranks, "kv_cache_dtype": "fp8", "block_size": 32},
            ]
    return [plain | other for other in others]


def _divides(model: Model, ranks: int) -> bool:
    heads = {kind.kv_heads for layer in model.kv_layers for kind in layer if isinstance(kind, AttentionKv)}
    states = [kind for layer in model.kv_layers for kind in layer if isinstance(kind, RecurrentState)]
    return (
        model.num_attention_heads % ranks == 0
        and all(count % ranks == 0 or ranks % count == 0 for count in heads)
        and all(state.conv_channels % ranks == 0 and state.state_elements % ranks == 0 for state in states)
    )


def answers(name: str, settings: MemorySettings) -> dict[str, Any]:
    """Return what vLLM makes of a model, at several sizes of KV memory."""
    model = load_model(name)
    config = config_of(model, settings)
    try:
        workers = specs_of(model, settings, config)
        merged = {layer: spec for worker in workers for layer, spec in worker.items()}
        groups = engine.get_kv_cache_groups(config, merged)
    except (ValueError, NotImplementedError) as error:
        return {"never_starts": type(error).__name__}
    stages = [engine._project_kv_cache_groups_to_worker(groups, worker) for worker in workers]
    sizes = [engine._pool_bytes_per_block(config, stage) for stage in stages]
    if not all(sizes):
        return {"never_starts": "ZeroDivisionError"}  # a stage without KV
    needed = engine._max_memory_usage_bytes_from_groups(config, stages[0]) // sizes[0]
    block = max(sizes)
    answer: dict[str, Any] = {
        "groups": [[_group(group) for group in stage] for stage in stages],
        "block_bytes": sizes,
        "blocks_per_request": needed,
        "refused": [],
        "starts": [],
    }
    for amount in (
        needed * block * 31 // 100,
        needed * block,
        (needed + 1) * block,
        needed * block * 37 // 10 + 12_345,
    ):
        sort, row = _at(model, settings, amount)
        answer[sort].append(row)
    return answer


def _group(group: Any) -> list[Any]:
    """Return kind, layers (an indexer's keys are their layer's) and tokens of a block (a state's do not matter: 0)."""
    spec = group.kv_cache_spec
    kind = KINDS[type(spec.first_spec if isinstance(spec, UniformTypeKVCacheSpecs) else spec)]
    layers = {name.rpartition(".")[0] for name in group.layer_names}
    return [kind, len(layers), 0 if kind == "state" else spec.block_size]


def _at(model: Model, settings: MemorySettings, kv_bytes: int) -> tuple[str, list[float]]:
    """Return what happens with so much KV memory on each GPU.

    Either "refused" and the longest request that fits, or "starts" and blocks, printed tokens, concurrency and
    max_model_len. Each row begins with the bytes.
    """
    config = config_of(model, settings)
    workers = specs_of(model, settings, config)
    try:
        made = engine.get_kv_cache_configs(config, [dict(worker) for worker in workers], [kv_bytes] * len(workers))
    except ValueError:
        groups = engine.get_kv_cache_groups(config, {name: spec for worker in workers for name, spec in worker.items()})
        stages = [engine._project_kv_cache_groups_to_worker(groups, worker) for worker in workers]
        longest = [
            engine._estimate_max_model_len_from_groups(
                config, stage, kv_bytes - engine._pool_bytes_per_block(config, stage)
            )
            for stage in stages
        ]
        return "refused", [kv_bytes, min(longest)]
    scheduler = engine.generate_scheduler_kv_cache_config(made)
    tokens, concurrency = engine.get_kv_cache_capacity(config, scheduler)
    length = config.model_config.max_model_len
    return "starts", [kv_bytes, scheduler.num_blocks, tokens, round(concurrency, 6), length]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
