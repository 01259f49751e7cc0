"""The memory ledger in the terminal: where the GPU's memory goes, line by line, with each number's origin."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sim.memory import ByteRange, MemoryLedger
from sim.units import gib


def ledger_table(ledger: MemoryLedger) -> Group:
    """Return the ledger as a table, then what it means or why the engine would refuse to start."""
    table = Table(title=f"{ledger.model} on one {ledger.gpu}", title_justify="left", box=None, pad_edge=False)
    for heading, justify in (("memory", "left"), ("likely", "right"), ("range", "left"), ("from", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # rich wants literals
    origin = ledger.provenance
    table.add_row("visible to the engine", gib(ledger.rank.total_visible_bytes), "", origin["total_visible_bytes"])
    table.add_row("budget", gib(ledger.rank.budget_bytes), "", origin["budget_bytes"])
    table.add_row("  weights", gib(ledger.rank.weight_bytes), "", origin["weight_bytes"])
    graphs = "  CUDA graphs" if ledger.cuda_graphs_reduce_kv else "  CUDA graphs (on top of the budget)"
    for name, span, key in (
        ("  activation peak", ledger.rank.activation_bytes, "activation_bytes"),
        ("  outside torch", ledger.rank.non_torch_bytes, "non_torch_bytes"),
        (graphs, ledger.rank.cuda_graph_bytes, "cuda_graph_bytes"),
        ("KV cache", ledger.rank.kv_bytes, "kv_bytes"),
    ):
        table.add_row(name, gib(span.likely), _range(span), origin[key])
    return Group(table, Text(), *_meaning(ledger))


def _range(span: ByteRange) -> str:
    return "" if span.low == span.high else f"{gib(span.low)} to {gib(span.high)}"


def _meaning(ledger: MemoryLedger) -> list[Text]:
    if ledger.refusal is not None:
        return [Text(f"The engine would not start: {ledger.refusal}.", style="bold red")]
    blocks = ledger.num_gpu_blocks_range
    spread = "" if blocks.low == blocks.high else f" ({blocks.low:,} to {blocks.high:,})"
    return [
        Text(
            f"{ledger.num_gpu_blocks:,} blocks{spread} of {ledger.layout.block_size} tokens at "
            f"{ledger.bytes_per_token:,.0f} bytes a token = {ledger.kv_cache_tokens:,} tokens"
        ),
        Text(
            f"maximum concurrency for {ledger.limits.max_model_len:,} tokens a request: "
            f"{ledger.max_concurrency:.2f}x (no admission limit); longest request: {ledger.largest_max_model_len:,}"
        ),
    ]
