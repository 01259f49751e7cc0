"""A GPU's memory as one stack of segments on a scale of bytes: what the terminal's bar and the chart both draw.

Parts stand end to end. Where KV has no room, the parts before it pass the point where KV should have ended, and from
there the stack is short of memory; where all parts together pass what is visible, it is short from there.
"""

from dataclasses import dataclass

from sim.memory import ByteRange, MemoryLedger, SglangPools
from sim.memory.parts import DYNAMIC, KV, LEFT, Part, parts_of, rank_parts
from sim.memory.rank import RankMemory


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of the stack, from where to where in bytes; `size_bytes` is its own, also where it had to give way."""

    name: str
    start_bytes: int
    end_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Segments in order, and what is marked on them."""

    segments: tuple[Segment, ...]
    visible_bytes: int
    budget_bytes: int  # the engine's share
    kv_start_range: ByteRange  # where KV may begin, which is what is uncertain about it
    short: tuple[int, int] | None  # from where to where memory is missing, in bytes; None where all fits

    @property
    def end_bytes(self) -> int:
        """Where the scale ends: at what is visible, or beyond it where that is not enough."""
        return max(self.visible_bytes, self.segments[-1].end_bytes)

    @property
    def kv_starts_between(self) -> tuple[int, int] | None:
        """Where on the GPU KV may begin, in bytes; None where that is one point, or beyond the GPU's end."""
        low, high = (
            min(max(0, end), self.visible_bytes) for end in (self.kv_start_range.low, self.kv_start_range.high)
        )
        return (low, high) if low < high else None

    @property
    def short_bytes(self) -> int:
        """How much memory is missing."""
        return 0 if self.short is None else self.short[1] - self.short[0]


def stack_of(ledger: MemoryLedger | SglangPools, rank: RankMemory | None = None) -> Stack:
    """Return the stack of the GPU that decides, or of another rank of a vLLM deployment."""
    if isinstance(ledger, SglangPools):  # its share ends where KV does
        parts = parts_of(ledger)
        return _stack(parts, ledger.total_visible_bytes, sum(part.size_bytes.likely for part in parts[:-1]))
    one = ledger.rank if rank is None else rank
    return _stack(rank_parts(ledger, one), one.total_visible_bytes, one.budget_bytes)


def _stack(parts: tuple[Part, ...], visible_bytes: int, budget_bytes: int) -> Stack:
    segments: list[Segment] = []
    at = 0
    kv_starts = ByteRange(0, 0, 0)
    short: tuple[int, int] | None = None
    for part in parts:
        size = part.size_bytes.likely
        drawn = max(0, size)
        if part.name in {LEFT, DYNAMIC}:  # gives way to what passes its place
            drawn = max(0, visible_bytes - at)
        if part.name == KV:
            kv_end = at + size
            kv_starts = ByteRange(kv_end - part.size_bytes.high, at, kv_end - part.size_bytes.low)
            short = (kv_end, at) if size < 0 else None
        segments.append(Segment(part.name, at, at + drawn, size))
        at += drawn
    if short is None and at > visible_bytes:
        short = (visible_bytes, at)
    return Stack(tuple(segments), visible_bytes, budget_bytes, kv_starts, short)
