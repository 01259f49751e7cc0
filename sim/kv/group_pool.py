"""The pool of a model with several groups of layers: single blocks that all groups share, in vLLM V1's order (0.32.0).

The queue is the one of block_pool.py: blocks without content first, the last freed before all others, then those that
keep content, oldest first. A block belongs to a group from the moment it holds content of it until it is evicted.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.kv.block_pool import BlockPool
from sim.kv.content import Chain, GroupCopies


class _Name(NamedTuple):
    """What a block holds: one group's KV up to a unit of a chain, or its state there."""

    chain: Chain
    group: int
    unit: int


class GroupPool(BlockPool):
    """The counts of a block pool, and its blocks by number: nothing is in extents."""

    def __init__(self, num_gpu_blocks: int, *, enable_prefix_caching: bool = True) -> None:
        super().__init__(num_gpu_blocks, enable_prefix_caching=enable_prefix_caching, numbered=True)
        self._references: dict[int, int] = {}  # of blocks that were ever handed out
        self._names: dict[int, _Name] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # free with content

    def find(self, chain: Chain, group: int, unit: int) -> int:
        """Return the block that holds this content: of copies the first made; 0 if none does."""
        copies = chain.groups
        blocks = copies.blocks.get((group, unit)) if copies is not None else None
        return blocks[0] if blocks else 0

    def num_idle(self, blocks: Iterable[int]) -> int:
        """Return how many of these are free: hitting them takes them off the free count. 0 is no block."""
        references = self._references
        return sum(block > 0 and not references[block] for block in blocks)

    def hand_out(self, count: int, taker: int) -> list[int]:
        """Hand out blocks from the front of the queue; those with content lose it. `num_free` suffices."""
        self.num_free -= count
        self.num_held += count
        blank = min(count, self._blank)
        self._blank -= blank
        blocks = self._take_numbers(blank)
        for _ in range(count - blank):
            block, _ = self._idle.popitem(last=False)
            self._evict_block(block, taker)
            blocks.append(block)
        for block in blocks:
            self._references[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> int:
        """Put cached blocks into one more table; free ones leave the queue. Return how many were free."""
        revived = 0
        for block in blocks:
            if not block:
                continue
            if not self._references[block]:
                del self._idle[block]
                revived += 1
            self._references[block] += 1
            self.num_held += 1
        self.num_free -= revived
        return revived

    def drop(self, blocks: Sequence[int]) -> int:
        """Take blocks out of a table, the one to be handed out first first. Return how many became free."""
        blank: list[int] = []
        freed = 0
        for block in blocks:
            self.num_held -= 1
            self._references[block] -= 1
            if self._references[block]:
                continue
            freed += 1
            if block in self._names:
                self._idle[block] = None
            else:
                blank.append(block)
        self._front += reversed(blank)
        self._blank += len(blank)
        self.num_free += freed
        return freed

    def name(self, block: int, chain: Chain, group: int, unit: int) -> None:
        """Give a block its content, so that later requests can hit it."""
        copies = chain.groups
        if copies is None:
            copies = chain.groups = GroupCopies()
        self._names[block] = _Name(chain, group, unit)
        copies.blocks.setdefault((group, unit), []).append(block)
        copies.takers.pop((group, unit), None)
        chain.seen = max(chain.seen, unit + 1)
        self.num_cached += 1

    def taker(self, chain: Chain, group: int, unit: int) -> int:
        """Return who took the last block of this content, or -1 if it was never cached or still is."""
        copies = chain.groups
        return -1 if copies is None else copies.takers.get((group, unit), -1)

    def _evict_block(self, block: int, taker: int) -> None:
        self.num_cached -= 1
        self.num_evicted += 1
        chain, group, unit = self._names.pop(block)
        copies = chain.groups
        assert copies is not None, "a named block has no content"
        blocks = copies.blocks[group, unit]
        blocks.remove(block)
        if not blocks:
            del copies.blocks[group, unit]
            copies.takers[group, unit] = taker

    def check_blocks(self, tables: Iterable[Sequence[int]]) -> None:
        """Raise AssertionError unless free and held blocks add up, and two tables share a block by content alone.

        `tables` are all rows of blocks in use; 0 in them is no block.
        """
        held = [block for table in tables for block in table if block]
        counts: dict[int, int] = {}
        for block in held:
            counts[block] = counts.get(block, 0) + 1
        assert len(held) == self.num_held, "held blocks miscounted"
        assert {block: count for block, count in self._references.items() if count} == counts, "references disagree"
        assert all(count == 1 or block in self._names for block, count in counts.items()), "shared without content"
        assert len(counts) + self.num_free == self.usable_blocks, "a block is lost or counted twice"
        assert self._blank + len(self._idle) == self.num_free, "free blocks miscounted"
        assert not any(block in counts for block in self._idle), "a block in use waits in the queue"
        assert self.num_cached == len(self._names), "cached blocks miscounted"
