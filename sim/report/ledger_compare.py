"""Two or more memory ledgers side by side: what differs in the settings, what that does, and mainly why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from string import ascii_uppercase

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.catalog import Model
from sim.memory import MemoryLedger, MemorySettings, SglangPools
from sim.memory.binding import longest_requests, replicas_of, total_concurrency
from sim.memory.parts import (
    ACTIVATION,
    GRAPHS,
    KV,
    MEASURED,
    MEASURED_WITH_GRAPHS,
    OUTSIDE_TORCH,
    STATES,
    WEIGHTS,
    parts_of,
)
from sim.memory.verdict import verdict_of
from sim.memory.versions import is_v0, prints_concurrency_tokens
from sim.report.ledger_causes import Ledger, main_cause, percent
from sim.report.ledger_table import MOST_COLUMNS
from sim.report.ledger_titles import common_title
from sim.report.ledger_words import read_as
from sim.report.trimmed import Trimmed
from sim.units import GIB, gib

_MANY = 4  # ledgers, from which on changes have a line of their own


def compare_table(
    names: Sequence[str], ledgers: Sequence[Ledger], *, models: Sequence[Model] = (), gpus: Sequence[str] = ()
) -> Trimmed:
    """Return a column a ledger, changes against the first in percent, then a sentence on the main causes of each.

    Columns go by letters, which stand with the names above. Rows that no ledger has are left out. `models` and
    `gpus`, one a ledger, say how names were read, and what SGLang's pools are of.
    """
    letters = [
        ascii_uppercase[index] if index < len(ascii_uppercase) else f"{index + 1}" for index in range(len(names))
    ]
    shown: list[RenderableType] = [Text(common_title(ledgers, [model.name for model in models], gpus), "bold")]
    shown += [Text(line, "dim") for line in dict.fromkeys(map(read_as, models)) if line]
    shown += [_named(letters, names), Text(), _table(letters, ledgers), Text()]
    for letter, ledger in zip(letters[1:], ledgers[1:], strict=True):
        shown.append(Text(f"{letter}: {main_cause(ledgers[0], ledger)}"))
    return Trimmed(Group(*shown), MOST_COLUMNS)


def _named(letters: Sequence[str], names: Sequence[str]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for letter, name in zip(letters, names, strict=True):
        grid.add_row(letter, Text(name))
    return grid


def _table(letters: Sequence[str], ledgers: Sequence[Ledger]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for letter in letters:
        table.add_column(letter, justify="right", overflow="fold")
    for label, values in _settings(ledgers).items():
        table.add_row(label, *values, style="bold")
    _add(table, _PARTS, ledgers)
    gap = " " if len(ledgers) < _MANY else "\n"
    for label, (number, form) in _numbers(ledgers).items():
        counts = [number(ledger) for ledger in ledgers]
        if any(count is not None for count in counts):
            table.add_row(label, *(_changed(count, counts[0], form, gap) for count in counts))
    _add(table, _RESULTS, ledgers)
    if any(ledger.refusal for ledger in ledgers):
        _add(table, {"largest max_model_len": _longest}, ledgers)
    table.add_row("starts", *map(_starts, ledgers))
    return table


def _add(table: Table, values: Mapping[str, Callable[[Ledger], str]], ledgers: Sequence[Ledger]) -> None:
    for label, value in values.items():
        cells = [value(ledger) for ledger in ledgers]
        if any(cells):
            table.add_row(label, *cells)


def _starts(ledger: Ledger) -> str | Text:
    probably = "probably " if isinstance(ledger, MemoryLedger) and verdict_of(ledger).is_open else ""
    return Text(f"{probably}refused", "bold red") if ledger.refusal else f"{probably or 'yes'}".strip()


def _longest(ledger: Ledger) -> str:
    return f"{ledger.largest_max_model_len:,}" if isinstance(ledger, MemoryLedger) else ""


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


def _of_started(value: Callable[[MemoryLedger], str]) -> Callable[[Ledger], str]:
    """Leave out what an engine that refuses does not print."""
    return _vllm(lambda ledger: value(ledger) if ledger.starts else "")


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
    return "concurrency x length" if newer else "blocks // groups x block"


def _kv_range(ledger: Ledger) -> str:
    span = next(part.size_bytes for part in parts_of(ledger) if part.name == KV)
    return "" if span.low == span.high else f"{span.low / GIB:.2f} to {span.high / GIB:.2f}"


_PARTS: dict[str, Callable[[Ledger], str]] = {
    **{
        name: _part(name)
        for name in (WEIGHTS, ACTIVATION, MEASURED, MEASURED_WITH_GRAPHS, OUTSIDE_TORCH, STATES, GRAPHS)
    },
    "graphs taken": _vllm(lambda it: "from KV" if it.cuda_graphs_reduce_kv else "on top"),
    KV: _part(KV),
    "KV range, GiB": _kv_range,
    "bytes a token": lambda ledger: f"{ledger.bytes_per_token:,.0f}",
    "block size": _vllm(lambda it: f"{it.layout.block_size:,} tokens"),
    "printed size": _of_started(_printed),
    "which is": _of_started(_printed_means),
}
_RESULTS: dict[str, Callable[[Ledger], str]] = {
    "binding limit": lambda ledger: "" if ledger.refusal else longest_requests(ledger).binding.name,
}


def _blocks(ledger: Ledger) -> float | None:
    return ledger.num_gpu_blocks if isinstance(ledger, MemoryLedger) else None


def _capacity(ledger: Ledger) -> float:
    return ledger.capacity_tokens if isinstance(ledger, MemoryLedger) else ledger.kv_cache_tokens.likely


def _concurrency(ledger: Ledger) -> float | None:
    return None if ledger.refusal else ledger.max_concurrency


def _total(ledger: Ledger) -> float | None:
    return None if ledger.refusal else total_concurrency(ledger)


def _numbers(ledgers: Sequence[Ledger]) -> dict[str, tuple[Callable[[Ledger], float | None], str]]:
    """Return what is counted, and how it is written; of the whole deployment where there are replicas."""
    of_one: dict[str, tuple[Callable[[Ledger], float | None], str]] = {
        "blocks": (_blocks, ",.0f"),
        "capacity tokens": (_capacity, ",.0f"),
        "max concurrency": (_concurrency, ",.2f"),
    }
    if all(replicas_of(ledger) == 1 for ledger in ledgers):
        return of_one
    return {**of_one, "replicas": (replicas_of, ",.0f"), "whole deployment": (_total, ",.2f")}


def _changed(number: float | None, first: float | None, form: str, gap: str) -> str:
    """Return a number with its change against the first, after a gap."""
    if number is None:
        return ""
    change = None if first is None else percent(number, first)
    return f"{number:{form}}" + (f"{gap}({change})" if change else "")
