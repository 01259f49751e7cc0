"""How sure it is that an engine starts: what one request takes of the KV memory, against that memory's range."""

from dataclasses import dataclass
from enum import Enum

from sim.memory.ledger import MemoryLedger
from sim.memory.rank import RankMemory
from sim.memory.reserves import ByteRange
from sim.memory.versions import keeps_a_block


class Trouble(Enum):
    """Why an engine gives up, in the order it finds out."""

    NOT_FREE = "less memory is free than the engine is to take"
    WEIGHTS = "the weights alone are more than the GPU has"
    NO_KV = "no memory is left for KV"
    SHORT_KV = "the KV memory holds less than one request of max_model_len"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an engine starts, by the GPU that has least of what it needs."""

    starts: bool
    trouble: Trouble | None  # None where it starts
    needed_bytes: int  # KV of one request of max_model_len
    kv_bytes: ByteRange  # there is
    is_open: bool  # whether one end of the range would turn it


def verdict_of(ledger: MemoryLedger) -> Verdict:
    """Return whether the engine starts, why not, and whether the range of the KV memory leaves that open."""
    rank = max(ledger.ranks, key=lambda one: _needed_bytes(ledger, one) - one.kv_bytes.likely)
    trouble = _trouble(ledger, rank)
    turned = _starts_with(ledger, high=not ledger.starts) is not ledger.starts
    return Verdict(
        starts=ledger.starts,
        trouble=trouble,
        needed_bytes=_needed_bytes(ledger, rank),
        kv_bytes=rank.kv_bytes,
        is_open=turned and trouble not in {Trouble.NOT_FREE, Trouble.WEIGHTS},
    )


def _trouble(ledger: MemoryLedger, rank: RankMemory) -> Trouble | None:
    if ledger.starts:
        return None
    free = ledger.settings.free_bytes_at_start
    if free is not None and free < max(one.budget_bytes for one in ledger.ranks):
        return Trouble.NOT_FREE
    if any(one.weight_bytes > one.total_visible_bytes for one in ledger.ranks):
        return Trouble.WEIGHTS
    return Trouble.NO_KV if rank.kv_bytes.likely <= 0 else Trouble.SHORT_KV


def _starts_with(ledger: MemoryLedger, *, high: bool) -> bool:
    """Whether the engine starts if each GPU has as much KV memory as one end of its range says."""
    kept = 1 if keeps_a_block(ledger.settings.vllm_version) else 0
    ends = ((one, one.kv_bytes.high if high else one.kv_bytes.low) for one in ledger.ranks)
    return all(one.checked_layout.blocks_in(size) - kept >= _needed_blocks(ledger, one) for one, size in ends)


def _needed_blocks(ledger: MemoryLedger, rank: RankMemory) -> int:
    return rank.checked_layout.blocks_for(ledger.limits.max_model_len, ledger.in_flight_tokens)


def _needed_bytes(ledger: MemoryLedger, rank: RankMemory) -> int:
    return _needed_blocks(ledger, rank) * rank.checked_layout.block_bytes
