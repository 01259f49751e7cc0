"""Runs of blocks that share one fate, and a request's table of them: what the pool moves instead of single blocks."""

from typing import Self

from sim.kv.content import Chain


class Extent:
    """Physical blocks that hold consecutive blocks of a chain and are referenced alike.

    Free ones are links of the pool's queue, oldest first; within one the last block goes first.
    """

    __slots__ = ("after", "blocks", "born", "chain", "newer", "numbers", "older", "references", "start")

    def __init__(self, chain: Chain, start: int, blocks: int, born: int, references: int = 1) -> None:
        self.chain = chain
        self.start = start  # in the chain
        self.blocks = blocks
        self.born = born  # of two copies of a block, the one with the lower number was registered first
        self.references = references
        self.after: Self | None = None  # what was split off its end while in use: tables may mean both
        self.older = self.newer = self
        self.numbers: list[int] = []  # of the blocks, where the pool hands out numbers

    @property
    def end(self) -> int:
        """The chain's block after its last one."""
        return self.start + self.blocks


class Loss:
    """Blocks of a chain from `start` on that were evicted in one go, the last one first."""

    __slots__ = ("at", "start", "takers")

    def __init__(self, start: int, takers: list[int] | int, at: int) -> None:
        self.start = start
        self.takers = takers  # who took them, in order; a number where it was one request
        self.at = at  # in `takers`, of who took block `start`

    def taker_of(self, block: int) -> int:
        """Return who took a block of the chain."""
        takers = self.takers
        return takers if isinstance(takers, int) else takers[self.at - (block - self.start)]

    def beyond(self, block: int) -> "Loss":
        """Return the loss without what lies before `block`."""
        return Loss(block, self.takers, self.at - (block - self.start))


class Table:
    """A request's blocks: extents in order (each with how many blocks are meant), then those without content."""

    __slots__ = ("blocks", "entries", "loose", "loose_numbers")

    def __init__(self) -> None:
        self.entries: list[tuple[Extent, int]] = []
        self.blocks = 0
        self.loose = 0
        self.loose_numbers: list[int] = []

    @property
    def registered(self) -> int:
        """Leading blocks whose content is known to the cache."""
        return self.blocks - self.loose

    def extents(self) -> list[Extent]:
        """Return what the entries mean by now, in order: some may have been split."""
        found: list[Extent] = []
        for first, blocks in self.entries:
            extent = first
            found.append(extent)
            left = blocks - extent.blocks
            while left:
                assert extent.after is not None, "an extent shrank under a table"
                extent = extent.after
                found.append(extent)
                left -= extent.blocks
        return found

    def clear(self) -> None:
        """Hold nothing."""
        self.entries = []
        self.blocks = self.loose = 0
        if self.loose_numbers:
            self.loose_numbers = []

    @property
    def numbers(self) -> list[int]:
        """The blocks' numbers, where the pool hands them out."""
        return [number for extent in self.extents() for number in extent.numbers] + self.loose_numbers
