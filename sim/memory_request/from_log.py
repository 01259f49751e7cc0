"""Takes an engine's own start-up figures into a question: what it printed goes before what the ledger would estimate.

The log of a start gives blocks as they were. For a what-if on the same GPU and model the memory that is not KV is kept,
and moved by as much as the ledger's own estimate of it moves.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sim.catalog import Gpu, load_gpu, load_model
from sim.errors import CatalogError, MemoryLedgerError
from sim.memory import MemorySettings, RankMemory, SglangSettings, memory_ledger
from sim.memory.kv_layout import KvLayout, kv_layout
from sim.memory.settings import Measured
from sim.memory_request.request import MemoryRequest
from sim.units import GIB, gib

if TYPE_CHECKING:
    from sim.startup_log import StartupFacts

NOTHING: Mapping[str, Any] = MappingProxyType({})
_SAME_LAYOUT = 0.02  # share by which bytes and blocks may be apart: ranks print their own, the least is used
_PRINTED_TO_BYTES = round(0.005 * GIB)
_SAME_CARD = 0.1  # share by which the visible memory of one card may differ between drivers
_TAKEN = (  # settings a log states, under the ledger's own names
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "kv_cache_dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enforce_eager",
    "enable_prefix_caching",
    "gpu_memory_utilization",
)


def settings_of_log(facts: "StartupFacts") -> dict[str, Any]:
    """Return the settings that a log states; KV figures are left out."""
    settings = {name: value for name in _TAKEN if (value := getattr(facts, name)) is not None}
    if facts.context_parallel_size is not None:
        settings["decode_context_parallel_size"] = facts.context_parallel_size
    if facts.attention_block_size is not None:
        settings.pop("block_size", None)  # raised by the engine, as the layout will do
    if facts.engine == "vllm" and facts.engine_version is not None:
        settings["vllm_version"] = facts.engine_version
    elif facts.scheduler == "V0":
        settings["vllm_version"] = "0.7.0"
    if facts.auto_fit_to_tokens is not None:
        settings["max_model_len"] = facts.auto_fit_to_tokens
    return settings | _draft_of_log(facts)


def _draft_of_log(facts: "StartupFacts") -> dict[str, Any]:
    """Return speculative decoding as the engine's configuration line prints it."""
    printed = str(facts.engine_config.get("speculative_config") or facts.user_args.get("speculative_config") or "")
    method = re.search(r"method['\"]?\s*[=:]\s*['\"]([\w-]{1,40})", printed)
    count = re.search(r"num_spec(?:ulative)?_tokens['\"]?\s*[=:]\s*(\d{1,4})\b", printed)
    if count is None:
        return {}
    return {
        "num_speculative_tokens": int(count[1]),
        "speculative_method": None if method is None else method[1].lower(),
    }


def with_log(request: MemoryRequest, facts: "StartupFacts", changes: Mapping[str, Any]) -> MemoryRequest:
    """Return the question with the log's figures, and with `changes` to its settings as a what-if.

    `request.settings` are the log's own (see settings_of_log). Raises MemoryLedgerError for a log that ends before KV
    was sized, or one of another GPU or model: its overhead says nothing of this one.
    """
    if facts.kv_bytes is None and (refused := facts.refusal) is not None and (refused.available_bytes or 0) > 0:
        request = replace(request, notes=(*request.notes, f"the log ends with a refusal: {refused.reason}"))
        return replace(
            request,
            settings=replace(request.settings, **{"kv_cache_memory_bytes": refused.available_bytes} | dict(changes)),
        )
    if facts.kv_bytes is None and facts.printed_blocks is None and facts.tokens is None:
        cut = ": it ends before the engine had sized its KV cache" if facts.is_cut else ""
        raise MemoryLedgerError(f"{facts.place} does not say how much KV cache there was{cut}")
    _check_same(request, facts)
    if request.sglang is not None:
        as_it_was = {} if changes or facts.tokens is None else {"kv_cache_tokens": facts.tokens}
        settings = replace(request.settings, **(dict(changes) or as_it_was))
        return replace(request, settings=settings, notes=(*request.notes, *facts.notes))
    request = replace(
        request,
        gpus=tuple(_as_seen(gpu, _visible(facts)) for gpu in request.gpus),
        notes=(*request.notes, *facts.notes),
    )
    measured = _measured(facts)
    logged = replace(request.settings, measured=measured)
    if not changes:
        return replace(request, settings=replace(logged, **_as_it_was(request, facts)))
    changed = replace(request.settings, **changes)
    if changed.kv_override is not None:
        return replace(request, settings=changed)
    before, after = (_estimate(request, settings) for settings in (request.settings, changed))
    if None not in (measured.weight_bytes, measured.activation_bytes, measured.non_torch_bytes):
        return replace(request, settings=replace(changed, measured=_shifted(measured, before, after)))
    shift = _sum(after, changed) - _sum(before, request.settings)
    non_kv = max(1, _non_kv_bytes(request, facts) + shift)
    return replace(request, settings=replace(changed, non_kv_bytes=non_kv, measured=_shifted(measured, before, after)))


def sglang_of_log(facts: "StartupFacts") -> SglangSettings:
    """Return what an SGLang log says of its pools: the share, memory before and after loading, slots for states."""
    before = facts.least(lambda rank: rank.free_before_load_bytes)
    after = facts.least(lambda rank: rank.free_after_load_bytes)
    slots = facts.least(lambda rank: rank.state_slots)
    return SglangSettings(
        mem_fraction_static=facts.mem_fraction_static,
        max_mamba_cache_size=None if slots is None else int(slots),
        free_before_load_bytes=None if before is None else int(before),
        free_after_load_bytes=None if after is None else int(after),
    )


def gpu_of_log(facts: "StartupFacts") -> Gpu | None:
    """Return the GPU a log names, or one that has the memory it shows and nothing else known; None if it shows none."""
    if facts.gpu_name is not None:
        return load_gpu(facts.gpu_name)
    seen = _visible(facts) or facts.least(lambda rank: rank.free_before_load_bytes)
    if seen is None:
        return None
    any_card = load_gpu("L4")
    seen_card = replace(any_card, name="GPU of the log", memory_bytes=int(seen), source=facts.place)
    return _as_seen(seen_card, int(seen))


def _as_seen(gpu: Gpu, visible_bytes: int | None) -> Gpu:
    return gpu if visible_bytes is None else replace(gpu, visible_bytes=visible_bytes, visible_from="log")


def _check_same(request: MemoryRequest, facts: "StartupFacts") -> None:
    gpu, model = request.gpus[0], request.model
    with suppress(CatalogError):
        if facts.gpu_name is not None and load_gpu(facts.gpu_name).name != gpu.name:
            raise MemoryLedgerError(f"{facts.place} is of a {facts.gpu_name}: what it shows says nothing of {gpu.name}")
    seen = _visible(facts)
    if seen is not None and abs(seen / gpu.usable_bytes - 1) > _SAME_CARD:
        raise MemoryLedgerError(
            f"{facts.place} shows a GPU with {gib(seen)}, {gpu.name} has {gib(gpu.usable_bytes)}: "
            "name the log's own with --gpu"
        )
    with suppress(CatalogError):
        if facts.model is not None and load_model(facts.model).name != model.name:
            raise MemoryLedgerError(f"{facts.place} is of {facts.model}: what it shows says nothing of {model.name}")


def _measured(facts: "StartupFacts") -> Measured:
    """Return the terms that the log prints, the largest over its ranks: that rank has the least KV."""
    weights = _most(facts, "weights_bytes")
    together = _most(facts, "weights_and_non_torch_bytes")
    if weights is None and together is not None:
        return Measured(together, _most(facts, "activation_bytes"), 0, _most(facts, "graph_bytes"))
    graphs = _most(facts, "graph_estimate_bytes") or _most(facts, "graph_bytes")
    return Measured(weights, _most(facts, "activation_bytes"), _most(facts, "non_torch_bytes"), graphs)


def _most(facts: "StartupFacts", name: str) -> int | None:
    return max((value for rank in facts.ranks if (value := getattr(rank, name)) is not None), default=None)


def _shifted(measured: Measured, before: RankMemory, after: RankMemory) -> Measured:
    """Return what was measured, each term moved by as much as its estimate moves."""

    def moved(seen: int | None, was: int, becomes: int) -> int | None:
        return None if seen is None else max(0, seen + becomes - was)

    return Measured(
        moved(measured.weight_bytes, before.weight_bytes, after.weight_bytes),
        moved(measured.activation_bytes, before.activation_bytes.likely, after.activation_bytes.likely),
        moved(measured.non_torch_bytes, before.non_torch_bytes.likely, after.non_torch_bytes.likely),
        moved(measured.cuda_graph_bytes, before.cuda_graph_bytes.likely, after.cuda_graph_bytes.likely),
    )


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
    layout = kv_layout(request.model, request.settings, request.settings.stages(request.model.num_hidden_layers)[0])
    _check_block(request, facts, layout)
    if facts.printed_blocks is not None:
        return {"num_gpu_blocks_override": facts.printed_blocks}
    if facts.tokens is not None and (layout.is_uniform or facts.kv_bytes is None):
        return {"kv_cache_tokens": facts.tokens}
    if facts.kv_bytes is not None and facts.kv_bytes > 0:
        return {"kv_cache_memory_bytes": facts.kv_bytes}
    return {"non_kv_bytes": _non_kv_bytes(request, facts)}


def _check_block(request: MemoryRequest, facts: "StartupFacts", layout: KvLayout) -> None:
    """Raise MemoryLedgerError if the log's bytes and blocks are of another layout: another model, or KV type."""
    kv, blocks = facts.kv_bytes, facts.num_gpu_blocks
    if blocks is None and facts.tokens is not None and request.settings.context_parallel_size == 1:
        blocks = facts.tokens // layout.block_size
    pipeline = request.settings.pipeline_parallel_size > 1  # stages differ, and ranks print one each
    if kv is None or blocks is None or not layout.is_uniform or pipeline or facts.num_gpu_blocks_override is not None:
        return
    ours = blocks * layout.block_bytes
    if abs(ours - kv) > _PRINTED_TO_BYTES + _SAME_LAYOUT * kv:
        per_token = kv / (blocks * layout.block_size)
        raise MemoryLedgerError(
            f"{facts.place}: {gib(kv)} in {blocks:,} blocks are {per_token:,.0f} bytes a token, and "
            f"{request.model.name} takes {layout.bytes_per_token:,.0f}: name what was loaded with --model or "
            "--kv-cache-dtype"
        )


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


def _estimate(request: MemoryRequest, settings: MemorySettings) -> RankMemory:
    """Return what the ledger says of a GPU that nobody measured."""
    return memory_ledger(request.gpus[0], request.model, settings).rank


def _sum(rank: RankMemory, settings: MemorySettings) -> int:
    charged = rank.cuda_graph_bytes.likely if settings.charges_cuda_graphs else 0
    return rank.weight_bytes + rank.activation_bytes.likely + rank.non_torch_bytes.likely + charged
