"""The memory ledger in the terminal: where the GPU's memory goes, what that means, and what to change if it is refused.

It fits 80 columns and fills at most 100; what matters stands in text as well as in colour.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.catalog import Model
from sim.memory import MemoryLedger, SglangPools
from sim.memory.parts import Part, parts_of
from sim.memory.remedies import Remedy
from sim.report.ledger_titles import title
from sim.report.ledger_words import gib_range, meaning, read_as, verdict_sentence
from sim.report.trimmed import Trimmed
from sim.units import gib

MOST_COLUMNS = 100


def ledger_table(
    ledger: MemoryLedger | SglangPools, *, model: Model | None = None, gpu: str = "", remedies: Sequence[Remedy] = ()
) -> Trimmed:
    """Return the parts of the memory with ranges and origins, then their meaning, a refusal, and its remedies.

    `model` says how its name was read and where its shape is from; SGLang's pools know neither model nor GPU.
    """
    shown: list[RenderableType] = [Text(title(ledger, model.name if model else "", gpu), style="bold")]
    if model is not None:
        origins = [read_as(model), f"shape from {model.source}"]
        shown.append(Text("; ".join(filter(None, origins)), style="dim"))
    shown += [Text(), _parts(ledger), Text(), _lines(ledger, model)]
    shown += _verdict(ledger)
    if remedies:
        shown += [Text(), _remedies(remedies)]
    elif ledger.refusal is not None:
        shown.append(Text("No single change to one flag makes it start."))
    return Trimmed(Group(*shown), MOST_COLUMNS)


def _verdict(ledger: MemoryLedger | SglangPools) -> list[RenderableType]:
    """Return whether the engine starts, where that is not plain: it refuses, or the range of KV leaves it open."""
    if isinstance(ledger, MemoryLedger):
        said = verdict_sentence(ledger)
    else:
        said = "" if ledger.refusal is None else f"The engine would not start: {ledger.refusal}."
    return [Text(), Text(said, style="bold yellow" if ledger.refusal is None else "bold red")] if said else []


def _parts(ledger: MemoryLedger | SglangPools) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("memory of one GPU")
    table.add_column("likely", justify="right", no_wrap=True)
    table.add_column("range", no_wrap=True)
    table.add_column("from")
    for part in parts_of(ledger):
        table.add_row(*_row(part), style="red" if part.size_bytes.likely < 0 else None)
    visible, source = _visible(ledger)
    table.add_row("visible", gib(visible), "", source, style="bold")
    if isinstance(ledger, MemoryLedger):
        name = f"budget, {ledger.settings.utilization:g} of it"
        table.add_row(name, gib(ledger.rank.budget_bytes), "", ledger.provenance["budget_bytes"])
    return table


def _row(part: Part) -> tuple[str, str, str, str]:
    short = " (short)" if part.size_bytes.likely < 0 else ""
    return part.name + short, gib(part.size_bytes.likely), gib_range(part.size_bytes), part.source


def _visible(ledger: MemoryLedger | SglangPools) -> tuple[int, str]:
    if isinstance(ledger, SglangPools):
        return ledger.total_visible_bytes, "catalog"
    return ledger.rank.total_visible_bytes, ledger.provenance["total_visible_bytes"]


def _lines(ledger: MemoryLedger | SglangPools, model: Model | None) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, line in meaning(ledger, model):
        grid.add_row(label, Text(line))
    return grid


def _remedies(remedies: Sequence[Remedy]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("one of these would do", no_wrap=True)
    table.add_column("then", no_wrap=True)
    table.add_column("at the cost of")
    for remedy in remedies:
        brings = f"{remedy.max_concurrency:,.2f}x of {remedy.max_model_len:,} tokens"
        table.add_row(Text(remedy.flag, style="bold"), brings, remedy.costs)
    return table
