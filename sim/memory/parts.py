"""A GPU's memory as a list of parts that add up to all of it: what the table, the bar and the chart show.

    vLLM     weights | activation peak | outside torch | CUDA graphs | KV cache | left to others
    SGLang   weights | states | KV cache | activations, graphs, driver

Graphs that come on top of the budget are taken from what is left to others. What does not fit is negative: KV where
the engine refuses, what is left where the parts overcommit the GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.memory.ledger import MemoryLedger
from sim.memory.rank import RankMemory
from sim.memory.reserves import ByteRange, exactly
from sim.memory.sglang import SglangPools

WEIGHTS = "weights"
ACTIVATION = "activation peak"
OUTSIDE_TORCH = "outside torch"
GRAPHS = "CUDA graphs"
MEASURED = "activation peak, outside torch"
MEASURED_WITH_GRAPHS = "activation peak, outside torch, graphs"
STATES = "states"
KV = "KV cache"
LEFT = "left to others"
DYNAMIC = "activations, graphs, driver"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a GPU's memory."""

    name: str
    size_bytes: ByteRange
    source: str  # where the size comes from, in the ledger's words


def parts_of(ledger: MemoryLedger | SglangPools) -> tuple[Part, ...]:
    """Return the parts of one GPU's memory; their likely sizes add up to its visible bytes, exactly.

    Of a pipeline it is the GPU that decides how many requests fit.
    """
    return _of_pools(ledger) if isinstance(ledger, SglangPools) else rank_parts(ledger, ledger.rank)


def rank_parts(ledger: MemoryLedger, rank: RankMemory) -> tuple[Part, ...]:
    """Return the parts of one GPU of a vLLM deployment."""
    origin = ledger.provenance
    graphs = Part(GRAPHS, rank.cuda_graph_bytes, origin["cuda_graph_bytes"])
    inside, on_top = ([graphs], []) if ledger.cuda_graphs_reduce_kv else ([], [graphs])
    measured = _beside_kv(ledger, rank)
    if measured is None:
        parts = [
            Part(WEIGHTS, rank.weight_range, origin["weight_bytes"]),
            Part(ACTIVATION, rank.activation_bytes, origin["activation_bytes"]),
            Part(OUTSIDE_TORCH, rank.non_torch_bytes, origin["non_torch_bytes"]),
            *inside,
        ]
    else:  # graphs that the budget is charged with are among what was measured
        weights = min(rank.weight_bytes, measured)
        rest = MEASURED_WITH_GRAPHS if inside and rank.cuda_graph_bytes.high else MEASURED
        parts = [
            Part(WEIGHTS, exactly(weights), origin["weight_bytes"]),
            Part(rest, exactly(measured - weights), "given" if ledger.settings.measured is None else "log"),
        ]
    parts += [Part(KV, rank.kv_bytes, origin["kv_bytes"]), *on_top]
    left = rank.total_visible_bytes - _sum(parts)
    taken = rank.cuda_graph_bytes if on_top else exactly(0)
    span = ByteRange(left + taken.likely - taken.high, left, left + taken.likely - taken.low)
    return (*parts, Part(LEFT, span, origin["budget_bytes"]))


def _beside_kv(ledger: MemoryLedger, rank: RankMemory) -> int | None:
    """Return what the budget holds besides KV, where it is known as one: given, or what a log's own figures leave."""
    settings, log = ledger.settings, ledger.settings.measured
    if settings.non_kv_bytes is not None or log is None:
        return settings.non_kv_bytes
    if log.weight_bytes is None or None not in (log.activation_bytes, log.non_torch_bytes):
        return None
    beside = rank.budget_bytes - rank.kv_bytes.likely
    return beside if settings.kv_override is not None and beside > rank.weight_bytes else None


def _of_pools(pools: SglangPools) -> tuple[Part, ...]:
    parts = [Part(WEIGHTS, exactly(pools.weight_bytes), "computed")]
    if pools.state_slots:
        parts.append(Part(STATES, exactly(pools.state_pool_bytes), "computed"))
    parts.append(Part(KV, pools.kv_bytes, "estimated"))
    left = pools.total_visible_bytes - _sum(parts)
    spread = pools.kv_bytes
    span = ByteRange(left + spread.likely - spread.high, left, left + spread.likely - spread.low)
    return (*parts, Part(DYNAMIC, span, "config"))


def _sum(parts: Sequence[Part]) -> int:
    return sum(part.size_bytes.likely for part in parts)
