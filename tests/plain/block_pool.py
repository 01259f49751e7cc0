"""The reference of `sim.kv.block_pool`: the same pool with every block by number, in arrays.

The free queue has three stretches, because of where blocks may enter it:

    front  [ freed without content, last in first out | never used yet | freed with content, oldest first ]
            `_front` (a stack)                          `_next_unused`    `_queue` (lazy deletion)

Block 0 is reserved, as in vLLM. Equal content may sit in several blocks; the one registered first is hit.
"""

import numpy as np
from numpy.typing import NDArray
from plain.content import Nodes

Blocks = NDArray[np.int64]
_NEVER = -2  # lost, where takers are numbers from 0 or -1


class BlockPool:
    """`num_gpu_blocks` blocks, block 0 reserved; see the module for the order they are handed out in."""

    def __init__(self, num_gpu_blocks: int, *, enable_prefix_caching: bool = True) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.enable_prefix_caching = enable_prefix_caching
        self.num_free = num_gpu_blocks - 1
        self.num_cached = 0
        self.num_evicted = 0
        self._references = np.zeros(num_gpu_blocks, np.int32)
        self._node = np.zeros(num_gpu_blocks, np.int64)  # content of a block, 0 = none
        self._front: list[int] = []
        self._next_unused = 1
        self._queue = np.zeros(1024, np.int64)
        self._head = self._tail = 0
        self._place = np.zeros(num_gpu_blocks, np.int64)  # 1 + where in _queue a free block waits, 0 = nowhere
        self._block = np.zeros(1024, np.int64)  # node -> the block registered first, 0 = none
        self._twins: dict[int, list[int]] = {}  # node -> further blocks of that content, oldest first
        self._evicted_by = np.full(1024, _NEVER, np.int64)  # node -> who took its last block

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can have: all but the reserved one."""
        return self.num_gpu_blocks - 1

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are in use (vLLM's kv_cache_usage): cached idle ones count as free."""
        return 1.0 - self.num_free / self.usable_blocks if self.usable_blocks else 0.0

    def lookup(self, nodes: Nodes) -> Blocks:
        """Return the blocks of the longest cached prefix of `nodes`."""
        if not self.enable_prefix_caching or not len(nodes):
            return nodes[:0]
        self._know(int(nodes.max()))
        blocks = self._block[nodes]
        missing = blocks == 0
        first_miss = int(missing.argmax())
        return blocks[:first_miss] if missing[first_miss] else blocks

    def num_in_queue(self, blocks: Blocks) -> int:
        """Return how many of these distinct blocks are free now: hitting them takes them off the free count."""
        return int(np.count_nonzero(self._references[blocks] == 0))

    def touch(self, blocks: Blocks) -> None:
        """Add a reference to each of these cached blocks; free ones leave the middle of the queue."""
        self.num_free -= self.num_in_queue(blocks)
        self._references[blocks] += 1
        self._place[blocks] = 0

    def take(self, count: int, taker: int = -1) -> list[int]:
        """Hand out `count` blocks from the front of the queue; those with content lose it (eviction).

        The caller has checked `num_free`. `taker` is remembered as who evicted what was lost.
        """
        taken: list[int] = []
        if self._front and count:
            taken = self._front[-count:][::-1]
            del self._front[-count:]
        fresh = min(count - len(taken), self.num_gpu_blocks - self._next_unused)
        if fresh > 0:
            taken.extend(range(self._next_unused, self._next_unused + fresh))
            self._next_unused += fresh
        if len(taken) < count:
            oldest = self._pop_queue(count - len(taken))
            self._evict(oldest, taker)
            taken.extend(oldest)
        self.num_free -= count
        self._references[taken] = 1
        return taken

    def release(self, blocks: Blocks) -> None:
        """Drop a reference of each block of a request's table, last block first.

        Blocks that become free and have content go to the tail, so a prefix outlives its own tail; those
        without go to the front, the request's last block first of all.
        """
        backwards = blocks[::-1]
        self._references[backwards] -= 1
        free = backwards[self._references[backwards] == 0]
        has_content = self._node[free] != 0
        self._front.extend(free[~has_content][::-1].tolist())
        self._append_queue(free[has_content])
        self.num_free += len(free)

    def register(self, blocks: Blocks, nodes: Nodes) -> None:
        """Give full blocks their content, so that later requests can hit them."""
        if not self.enable_prefix_caching:
            return
        self._know(int(nodes.max()))
        self.num_cached += len(blocks)
        self._node[blocks] = nodes
        self._evicted_by[nodes] = _NEVER
        vacant = self._block[nodes] == 0
        if vacant.all():
            self._block[nodes] = blocks
            return
        for block, node in zip(blocks.tolist(), nodes.tolist(), strict=True):
            if self._block[node]:
                self._twins.setdefault(node, []).append(block)
            else:
                self._block[node] = block

    def lost(self, nodes: Nodes) -> tuple[int, int]:
        """Return how many of these contents were cached once and evicted since, and who took the first of them.

        The second is the `taker` given to `take`, or -1 where nothing was lost.
        """
        if not len(nodes):
            return 0, -1
        self._know(int(nodes.max()))
        takers = self._evicted_by[nodes]
        were_lost = takers != _NEVER
        count = int(np.count_nonzero(were_lost))
        return count, int(takers[were_lost.argmax()]) if count else -1

    def _know(self, node: int) -> None:
        if node >= len(self._block):
            more = max(2 * len(self._block), node + 1) - len(self._block)
            self._block = np.concatenate([self._block, np.zeros(more, np.int64)])
            self._evicted_by = np.concatenate([self._evicted_by, np.full(more, _NEVER, np.int64)])

    def _append_queue(self, blocks: Blocks) -> None:
        count = len(blocks)
        if self._tail + count > len(self._queue):
            entries = self._queue[self._head : self._tail]
            waiting = entries[self._place[entries] == np.arange(self._head + 1, self._tail + 1)]
            if 2 * (len(waiting) + count) > len(self._queue):
                self._queue = np.zeros(4 * (len(waiting) + count), np.int64)
            self._queue[: len(waiting)] = waiting
            self._place[waiting] = np.arange(1, len(waiting) + 1)
            self._head, self._tail = 0, len(waiting)
        self._queue[self._tail : self._tail + count] = blocks
        self._place[blocks] = np.arange(self._tail + 1, self._tail + count + 1)
        self._tail += count

    def _pop_queue(self, count: int) -> list[int]:
        popped: list[int] = []
        while len(popped) < count:
            stop = min(self._head + 2 * count + 16, self._tail)
            entries = self._queue[self._head : stop]
            places = np.arange(self._head + 1, stop + 1)
            waiting = (self._place[entries] == places).nonzero()[0]
            chosen = waiting[: count - len(popped)]
            enough = len(chosen) == count - len(popped)
            self._head = self._head + int(chosen[-1]) + 1 if enough else stop
            blocks = entries[chosen]
            self._place[blocks] = 0
            popped.extend(blocks.tolist())
        return popped

    def _evict(self, blocks: list[int], taker: int) -> None:
        self.num_cached -= len(blocks)
        self.num_evicted += len(blocks)
        for block in blocks:
            node = int(self._node[block])
            self._node[block] = 0
            twins = self._twins.get(node)
            if twins is None:
                self._block[node] = 0
                self._evicted_by[node] = taker
                continue
            if self._block[node] == block:
                self._block[node] = twins.pop(0)
            else:
                twins.remove(block)
            if not twins:
                del self._twins[node]
