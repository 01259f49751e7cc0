"""Two or more memory ledgers side by side: what differs in the settings, what that does, and mainly why."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from sim.memory import MemoryLedger, MemorySettings, SglangPools
from sim.memory.binding import longest_requests
from sim.memory.parts import ACTIVATION, GRAPHS, KV, MEASURED, OUTSIDE_TORCH, STATES, WEIGHTS, parts_of
from sim.memory.versions import is_v0, prints_concurrency_tokens
from sim.report.ledger_table import MOST_COLUMNS
from sim.units import gib

Ledger = MemoryLedger | SglangPools

_ALIKE = 0.005  # a change below this is none
_TWICE = 1.95  # times from which a change is a factor
_CHARGED = {"the weights": WEIGHTS, "the activation peak": ACTIVATION, "memory outside torch": OUTSIDE_TORCH}


def compare_table(names: Sequence[str], ledgers: Sequence[Ledger]) -> Constrain:
    """Return a column a ledger, changes against the first in percent, then a sentence on the main cause of each.

    Rows that no ledger has are left out.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for label, values in _settings(ledgers).items():
        table.add_row(label, *values, style="bold")
    for label, value in _VALUES.items():
        cells = [value(ledger) for ledger in ledgers]
        if any(cells):
            table.add_row(label, *cells)
    for label, (number, form) in _NUMBERS.items():
        counts = [number(ledger) for ledger in ledgers]
        if any(count is not None for count in counts):
            table.add_row(label, *(_changed(count, counts[0], form) for count in counts))
    table.add_row("binding limit", *(longest_requests(ledger).binding.name for ledger in ledgers))
    table.add_row("starts", *(Text("refused", "bold red") if ledger.refusal else "yes" for ledger in ledgers))
    shown: list[RenderableType] = [table, Text()]
    for name, ledger in zip(names[1:], ledgers[1:], strict=True):
        shown.append(Text(f"{name}: {main_cause(ledgers[0], ledger)}"))
    return Constrain(Group(*shown), MOST_COLUMNS)


def main_cause(before: Ledger, after: Ledger) -> str:
    """Return what changes from one ledger to another, and the largest single reason."""
    if not isinstance(before, MemoryLedger) or not isinstance(after, MemoryLedger):
        change = _percent(after.max_concurrency, before.max_concurrency)
        return f"concurrency {change or 'unchanged'}"
    if not before.num_gpu_blocks or not after.num_gpu_blocks:
        return _verdict(before, after)
    per_request = math.log(_request_bytes(before) / _request_bytes(after))
    memory = math.log(max(1, after.kv_bytes) / max(1, before.kv_bytes))
    change = _percent(after.max_concurrency, before.max_concurrency)
    if change is None:
        return "concurrency unchanged"
    reason = _request_reason(before, after) if abs(per_request) >= abs(memory) else _memory_reason(before, after)
    return f"concurrency {change}: {reason}"


def _verdict(before: MemoryLedger, after: MemoryLedger) -> str:
    if before.starts == after.starts:
        return "both start" if after.starts else "neither starts"
    return f"{'starts' if after.starts else 'refused'}: {_memory_reason(before, after)}"


def _request_bytes(ledger: MemoryLedger) -> int:
    return ledger.blocks_per_request * ledger.layout.block_bytes


def _request_reason(before: MemoryLedger, after: MemoryLedger) -> str:
    """Return why a request of full length takes more or fewer bytes: the first of these that differs."""
    one, two = before.settings, after.settings
    if before.limits.max_model_len != after.limits.max_model_len:
        return f"requests of {after.limits.max_model_len:,} instead of {before.limits.max_model_len:,} tokens"
    if one.kv_cache_dtype != two.kv_cache_dtype:
        return f"the KV type, {after.bytes_per_token:,.0f} instead of {before.bytes_per_token:,.0f} bytes a token"
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"):
        if getattr(one, name) != getattr(two, name):
            return f"{name} {getattr(two, name)} instead of {getattr(one, name)}"
    states = [sum(group.state_blocks for group in ledger.layout.groups) for ledger in (before, after)]
    if states[0] != states[1]:
        return f"{states[1]} instead of {states[0]} blocks a sequence for states"
    if before.in_flight_tokens != after.in_flight_tokens:
        return (
            f"the window groups reserve {after.in_flight_tokens:,} instead of {before.in_flight_tokens:,} "
            "in-flight tokens"
        )
    return "the layout of the KV cache"


def _memory_reason(before: MemoryLedger, after: MemoryLedger) -> str:
    """Return which part of the budget makes most of the change of the KV memory."""
    change = after.kv_bytes - before.kv_bytes
    first, then = ({part.name: part.size_bytes.likely for part in parts_of(ledger)} for ledger in (before, after))
    taken = {label: first.get(name, 0) - then.get(name, 0) for label, name in _CHARGED.items()}
    charged = [
        sizes.get(GRAPHS, 0) if ledger.cuda_graphs_reduce_kv else 0
        for sizes, ledger in ((first, before), (then, after))
    ]
    taken["CUDA graphs"] = charged[0] - charged[1]
    taken["the budget"] = after.rank.budget_bytes - before.rank.budget_bytes
    main = max(taken, key=lambda label: taken[label] if change > 0 else -taken[label])
    if not taken[main] or (taken[main] > 0) is not (change > 0):
        return f"KV memory {gib(after.kv_bytes)} instead of {gib(before.kv_bytes)}"
    more = "more" if change > 0 else "less"
    return f"{main} {'leave' if main.endswith('s') else 'leaves'} {gib(abs(taken[main]))} {more} for KV"


def _settings(ledgers: Sequence[Ledger]) -> dict[str, list[str]]:
    """Return the settings that differ, as they took effect."""
    others = {field.name: _own_setting(field.name) for field in fields(MemorySettings) if field.name not in _EFFECTIVE}
    rows = {label: [value(ledger) for ledger in ledgers] for label, value in {**_EFFECTIVE, **others}.items()}
    return {label: values for label, values in rows.items() if len(set(filter(None, values))) > 1}


def _own_setting(name: str) -> Callable[[Ledger], str]:
    def value(ledger: Ledger) -> str:
        if isinstance(ledger, SglangPools):
            return ""
        found = getattr(ledger.settings, name)
        return "default" if found is None or found == () else str(found)

    return value


def _vllm(value: Callable[[MemoryLedger], str]) -> Callable[[Ledger], str]:
    return lambda ledger: value(ledger) if isinstance(ledger, MemoryLedger) else ""


_EFFECTIVE: dict[str, Callable[[Ledger], str]] = {
    "engine": lambda ledger: "SGLang" if isinstance(ledger, SglangPools) else "vLLM",
    "model": _vllm(lambda it: it.model),
    "gpu": _vllm(lambda it: it.gpu),
    "vllm_version": _vllm(lambda it: it.settings.vllm_version),
    "gpu_memory_utilization": _vllm(lambda it: f"{it.settings.utilization:g}"),
    "max_model_len": lambda ledger: f"{longest_requests(ledger).tokens:,}",
    "max_num_batched_tokens": _vllm(lambda it: f"{it.limits.max_num_batched_tokens:,}"),
    "max_num_seqs": _vllm(lambda it: f"{it.limits.max_num_seqs:,}"),
}


def _part(name: str) -> Callable[[Ledger], str]:
    def value(ledger: Ledger) -> str:
        return next((gib(part.size_bytes.likely) for part in parts_of(ledger) if part.name == name), "")

    return value


def _printed(ledger: MemoryLedger) -> str:
    return "" if is_v0(ledger.settings.vllm_version) else f"{ledger.kv_cache_tokens:,} tokens"


def _printed_means(ledger: MemoryLedger) -> str:
    """Return what the version means by "GPU KV cache size", where kinds of layers make that differ."""
    if ledger.layout.is_uniform or is_v0(ledger.settings.vllm_version):
        return ""
    newer = prints_concurrency_tokens(ledger.settings.vllm_version)
    return "concurrency x max_model_len" if newer else "blocks // groups x block"


_VALUES: dict[str, Callable[[Ledger], str]] = {
    **{name: _part(name) for name in (WEIGHTS, ACTIVATION, MEASURED, OUTSIDE_TORCH, STATES, GRAPHS)},
    "graphs taken": _vllm(lambda it: "from KV" if it.cuda_graphs_reduce_kv else "on top"),
    KV: _part(KV),
    "bytes a token": lambda ledger: f"{ledger.bytes_per_token:,.0f}",
    "block size": _vllm(lambda it: f"{it.layout.block_size:,} tokens"),
    "printed size": _vllm(_printed),
    "which is": _vllm(_printed_means),
}


def _blocks(ledger: Ledger) -> float | None:
    return ledger.num_gpu_blocks if isinstance(ledger, MemoryLedger) else None


def _capacity(ledger: Ledger) -> float:
    return ledger.capacity_tokens if isinstance(ledger, MemoryLedger) else ledger.kv_cache_tokens.likely


_NUMBERS: dict[str, tuple[Callable[[Ledger], float | None], str]] = {
    "blocks": (_blocks, ",.0f"),
    "capacity tokens": (_capacity, ",.0f"),
    "max concurrency": (lambda ledger: ledger.max_concurrency, ",.2f"),
}


def _changed(number: float | None, first: float | None, form: str) -> str:
    """Return a number with its change against the first."""
    if number is None:
        return ""
    change = None if first is None else _percent(number, first)
    return f"{number:{form}}" + (f" ({change})" if change else "")


def _percent(number: float, first: float) -> str | None:
    """Return `+23 %`, or `x 2.00` from twice on; None where there is no change to speak of, or nothing to divide by."""
    if first <= 0 or abs(number - first) <= _ALIKE * first:
        return None
    return f"x {number / first:,.2f}" if number >= _TWICE * first else f"{number / first - 1:+.0%}".replace("%", " %")
