"""The block pool again, slow and obvious: rules 18 to 23 of the recorded decisions' README, one block at a time.

Written from the rules alone; a block's key is the whole run of tokens up to its end, spelled out.
"""

from collections.abc import Hashable, Sequence


class SlowPool:
    """Blocks 1 .. num_gpu_blocks - 1; `queue` holds the free ones, the next to be handed out first."""

    def __init__(self, num_gpu_blocks: int, *, caching: bool = True) -> None:
        self.caching = caching
        self.queue = list(range(1, num_gpu_blocks))
        self.references = dict.fromkeys(self.queue, 0)
        self.key_of: dict[int, Hashable] = {}
        self.blocks_of: dict[Hashable, list[int]] = {}  # first registered first
        self.evicted = 0
        self.taken_by: dict[Hashable, int] = {}  # content that is gone -> who took its last block

    @property
    def num_free(self) -> int:
        """Blocks without a reference, with or without content."""
        return len(self.queue)

    @property
    def num_cached(self) -> int:
        """Blocks that carry a key, in use or free."""
        return len(self.key_of)

    def lookup(self, keys: Sequence[Hashable]) -> list[int]:
        """Rule 13 and 19: from the start, stop at the first miss, the first registered wins."""
        found: list[int] = []
        for key in keys:
            if key not in self.blocks_of:
                break
            found.append(self.blocks_of[key][0])
        return found

    def touch(self, blocks: Sequence[int]) -> None:
        """Rule 21."""
        for block in blocks:
            if self.references[block] == 0:
                self.queue.remove(block)
            self.references[block] += 1

    def take(self, count: int, taker: int = -1) -> list[int]:
        """Rule 20; `taker` is remembered as who evicted what was lost."""
        taken = []
        for _ in range(count):
            block = self.queue.pop(0)
            if block in self.key_of:
                key = self.key_of.pop(block)
                self.blocks_of[key].remove(block)
                if not self.blocks_of[key]:
                    del self.blocks_of[key]
                    self.taken_by[key] = taker
                self.evicted += 1
            self.references[block] = 1
            taken.append(block)
        return taken

    def register(self, block: int, key: Hashable) -> None:
        """Rule 18 and 19."""
        if self.caching:
            assert block not in self.key_of, "a block's content is settled once"
            self.key_of[block] = key
            self.blocks_of.setdefault(key, []).append(block)
            self.taken_by.pop(key, None)

    def release(self, blocks: Sequence[int]) -> None:
        """Rule 22."""
        with_key, without_key = [], []
        for block in reversed(blocks):
            self.references[block] -= 1
            if self.references[block] == 0:
                (with_key if block in self.key_of else without_key).append(block)
        self.queue = without_key + self.queue + with_key

    def lost(self, keys: Sequence[Hashable]) -> tuple[int, int]:
        """Return how many of these were cached once and are not now, and who took the first of them; or (0, -1)."""
        takers = [self.taken_by[key] for key in keys if key in self.taken_by]
        return len(takers), takers[0] if takers else -1
