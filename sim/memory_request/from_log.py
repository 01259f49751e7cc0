"""Takes an engine's own start-up figures into a question: what it printed goes before what the ledger would estimate.

The log of a start gives blocks as they were. For a what-if on the same GPU and model the memory that is not KV is kept,
and moved by as much as the ledger's own estimate of it moves.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sim.errors import MemoryLedgerError
from sim.memory import MemorySettings, memory_ledger
from sim.memory.kv_layout import kv_layout
from sim.memory_request.request import MemoryRequest

if TYPE_CHECKING:
    from sim.startup_log import StartupFacts

NOTHING: Mapping[str, Any] = MappingProxyType({})
_TAKEN = (  # settings a log states, under the ledger's own names
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "kv_cache_dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "context_parallel_size",
    "enforce_eager",
    "enable_prefix_caching",
    "gpu_memory_utilization",
)


def settings_of_log(facts: "StartupFacts") -> dict[str, Any]:
    """Return the settings that a log states; KV figures are left out."""
    settings = {name: value for name in _TAKEN if (value := getattr(facts, name)) is not None}
    if facts.attention_block_size is not None:
        settings.pop("block_size", None)  # raised by the engine, as the layout will do
    if facts.engine == "vllm" and facts.engine_version is not None:
        settings["vllm_version"] = facts.engine_version
    elif facts.scheduler == "V0":
        settings["vllm_version"] = "0.7.0"
    if facts.auto_fit_to_tokens is not None:
        settings["max_model_len"] = facts.auto_fit_to_tokens
    return settings


def with_log(request: MemoryRequest, facts: "StartupFacts", changes: Mapping[str, Any]) -> MemoryRequest:
    """Return the question with the log's figures, and with `changes` to its settings as a what-if.

    `request.settings` are the log's own (see settings_of_log). Raises MemoryLedgerError for a log that ends before KV
    was sized, or a what-if that needs more of it than it says.
    """
    if facts.kv_bytes is None and facts.printed_blocks is None and facts.tokens is None:
        cut = ": it ends before the engine had sized its KV cache" if facts.is_cut else ""
        raise MemoryLedgerError(f"{facts.place} does not say how much KV cache there was{cut}")
    gpus = tuple(replace(gpu, visible_bytes=_visible(facts) or gpu.visible_bytes) for gpu in request.gpus)
    request = replace(request, gpus=gpus, notes=(*request.notes, *facts.notes))
    if not changes:
        return replace(request, settings=replace(request.settings, **_as_it_was(request, facts)))
    changed = replace(request.settings, **changes)
    if changed.kv_override is not None:
        return replace(request, settings=changed)
    non_kv = _non_kv_bytes(request, facts)
    shift = _estimate(request, changed) - _estimate(request, request.settings)
    return replace(request, settings=replace(changed, non_kv_bytes=max(1, non_kv + shift)))


def like_log(request: MemoryRequest, facts: "StartupFacts", changes: Mapping[str, Any] = NOTHING) -> MemoryRequest:
    """Return a scenario's question with a log's figures: what the scenario sets otherwise than the log is a what-if.

    What it leaves at its default is taken from the log.
    """
    logged = settings_of_log(facts)
    asked = {
        field.name: value
        for field in fields(MemorySettings)
        if (value := getattr(request.settings, field.name)) != field.default and value != logged.get(field.name)
    }
    kept = {name: asked.pop(name) for name in ("weight_dtype", "vllm_version") if name in asked}
    base = replace(request, settings=MemorySettings(**(kept | logged)))
    return with_log(base, facts, asked | dict(changes))


def _as_it_was(request: MemoryRequest, facts: "StartupFacts") -> dict[str, Any]:
    """Return the one setting that fixes the KV memory as it was. Tokens mean blocks only by layout and version."""
    if facts.printed_blocks is not None:
        return {"num_gpu_blocks_override": facts.printed_blocks}
    if facts.tokens is not None and (facts.kv_bytes is None or kv_layout(request.model, request.settings).is_uniform):
        return {"kv_cache_tokens": facts.tokens}
    if facts.kv_bytes is not None and facts.kv_bytes > 0:
        return {"kv_cache_memory_bytes": facts.kv_bytes}
    return {"non_kv_bytes": _non_kv_bytes(request, facts)}


def _visible(facts: "StartupFacts") -> int | None:
    rank = facts.tightest_rank
    return None if rank is None else rank.total_bytes


def _non_kv_bytes(request: MemoryRequest, facts: "StartupFacts") -> int:
    if facts.non_kv_bytes is not None:
        return facts.non_kv_bytes
    settings = request.settings
    if facts.kv_bytes is None:
        settings = replace(settings, **_as_it_was(request, facts))
    rank = memory_ledger(request.gpus[0], request.model, settings).rank
    return rank.budget_bytes - (rank.kv_bytes.likely if facts.kv_bytes is None else facts.kv_bytes)


def _estimate(request: MemoryRequest, settings: MemorySettings) -> int:
    """Return what the ledger estimates beside KV, in bytes."""
    rank = memory_ledger(request.gpus[0], request.model, settings).rank
    charged = rank.cuda_graph_bytes.likely if settings.charges_cuda_graphs else 0
    return rank.weight_bytes + rank.activation_bytes.likely + rank.non_torch_bytes.likely + charged
