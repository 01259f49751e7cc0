"""Four block pools that must agree: ours with and without block numbers, the plain one, and the slow one.

They are driven as a scheduler drives its pool, and compared after every operation in everything that can be seen.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from plain.block_pool import BlockPool as PlainPool
from plain.content import ContentTree as PlainTree
from slow_pool import SlowPool
from strategies import tokens_of

from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.kv.extent import Table
from workloads.span import Span

Prompt = tuple[Span, ...]
_LOOKED_AT = 8  # prompts after every operation, the latest ones; all of them at the end


@dataclass(eq=False)
class Held:
    """What one request holds: a table in each of our pools, and the block numbers that all others gave it."""

    prompt: Prompt
    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    numbered: Table = field(default_factory=Table)
    counted: Table = field(default_factory=Table)


class FourPools:
    """`numbered` and `counted` are ours; each has a tree of its own, for a chain holds what its pool knows of it."""

    def __init__(self, num_gpu_blocks: int, *, caching: bool = True, block_size: int = 1) -> None:
        self.block_size = block_size
        self.numbered = BlockPool(num_gpu_blocks, enable_prefix_caching=caching, numbered=True)
        self.counted = BlockPool(num_gpu_blocks, enable_prefix_caching=caching)
        self.plain = PlainPool(num_gpu_blocks, enable_prefix_caching=caching)
        self.slow = SlowPool(num_gpu_blocks, caching=caching)
        self.held: list[Held] = []
        self._prompts: dict[Prompt, list[Hashable]] = {}  # seen so far, with their blocks' keys
        self._numbered_tree, self._counted_tree = ContentTree(block_size), ContentTree(block_size)
        self._plain_tree = PlainTree(block_size)

    @property
    def num_free(self) -> int:
        """Blocks that can be taken."""
        return self.slow.num_free

    def keys(self, prompt: Prompt) -> list[Hashable]:
        """Return the full blocks of a prompt, each as all tokens up to its end."""
        if prompt not in self._prompts:
            tokens, size = tokens_of(prompt), self.block_size
            self._prompts[prompt] = [tuple(tokens[:end]) for end in range(size, len(tokens) + 1, size)]
        return self._prompts[prompt]

    def lookup(self, prompt: Prompt, limit: int | None = None) -> list[int]:
        """Return the cached blocks of a prompt, of the first `limit`."""
        hit = self.slow.lookup(self.keys(prompt)[:limit])
        assert self.plain.lookup(self._plain_tree.nodes(prompt)[:limit]).tolist() == hit
        free = sum(self.slow.references[block] == 0 for block in hit)
        most = len(self.keys(prompt)) if limit is None else limit
        assert self.numbered.match(self._numbered_tree.content(prompt), most) == (len(hit), free)
        assert self.counted.match(self._counted_tree.content(prompt), most) == (len(hit), free)
        return hit

    def lost(self, prompt: Prompt, first: int, stop: int) -> tuple[int, int]:
        """Return how many blocks of a prompt are lost and who took the first of them."""
        lost = self.slow.lost(self.keys(prompt)[first:stop])
        assert self.plain.lost(self._plain_tree.nodes(prompt)[first:stop]) == lost
        assert self.numbered.lost(self._numbered_tree.content(prompt), first, stop) == lost
        assert self.counted.lost(self._counted_tree.content(prompt), first, stop) == lost
        return lost

    def admit(
        self, prompt: Prompt, *, limit: int | None = None, beyond: int = 0, register: bool = True, taker: int = -1
    ) -> Held | None:
        """Hit what is cached of the first `limit`, take the rest and `beyond` more; None where it does not fit."""
        hit = self.lookup(prompt, limit)
        revived = sum(self.slow.references[block] == 0 for block in hit)
        count = len(self.keys(prompt)) - len(hit) + beyond
        if count + revived > self.num_free:
            return None
        held = Held(prompt)
        self.held.append(held)
        self.numbered.use(held.numbered, self._numbered_tree.content(prompt), len(hit))
        self.counted.use(held.counted, self._counted_tree.content(prompt), len(hit))
        self.plain.touch(np.array(hit, np.int64))
        self.slow.touch(hit)
        held.blocks, held.registered = list(hit), len(hit)
        self.check()
        self.take(held, count, taker)
        if register:
            self.register(held, len(self.keys(prompt)))
        return held

    def take(self, held: Held, count: int, taker: int = -1) -> list[int]:
        """Hand out blocks to one request."""
        taken = self.slow.take(count, taker)
        assert self.plain.take(count, taker) == taken
        held.blocks += taken
        self.numbered.take(held.numbered, count, taker)
        self.counted.take(held.counted, count, taker)
        self.check()
        return taken

    def take_each(self, takers: Sequence[tuple[Held, int]]) -> None:
        """Hand out a block to each in turn; the pool that counts does it in one go, and does not keep tables."""
        for held, taker in takers:
            taken = self.slow.take(1, taker)
            assert self.plain.take(1, taker) == taken
            held.blocks += taken
            self.numbered.take(held.numbered, 1, taker)
            held.counted.blocks += 1
            held.counted.loose += 1
        self.counted.take_each([taker for _, taker in takers])
        self.check()

    def register(self, held: Held, upto: int) -> None:
        """Give content to a request's blocks before block `upto`."""
        keys = self.keys(held.prompt)
        upto = min(upto, len(keys), len(held.blocks))
        first = held.registered
        self.numbered.register(held.numbered, self._numbered_tree.content(held.prompt), upto)
        self.counted.register(held.counted, self._counted_tree.content(held.prompt), upto)
        if upto > first:
            nodes = self._plain_tree.nodes(held.prompt)
            self.plain.register(np.array(held.blocks[first:upto], np.int64), nodes[first:upto])
            for block, key in zip(held.blocks[first:upto], keys[first:upto], strict=True):
                self.slow.register(block, key)
            held.registered = upto
        self.check()

    def release(self, held: Held) -> None:
        """Give everything back."""
        self.held.remove(held)
        self.numbered.release(held.numbered)
        self.counted.release(held.counted)
        self.plain.release(np.array(held.blocks, np.int64))
        self.slow.release(held.blocks)
        assert (held.numbered.blocks, held.counted.blocks, held.numbered.numbers) == (0, 0, [])
        self.check()

    def drain(self) -> list[int]:
        """Take every free block, each by a taker of its own: the whole order of the queue is compared."""
        last, order = Held(()), []
        self.held.append(last)
        while self.num_free:
            order += self.take(last, 1, 1_000 + len(order))
        for prompt, keys in self._prompts.items():
            for index in range(len(keys)):
                self.lost(prompt, index, index + 1)
        return order

    def check(self) -> None:
        """Compare all that can be seen of tables, counts and cache, and look inside ours."""
        slow = self.slow
        for held in self.held:
            assert held.numbered.numbers == held.blocks
            assert held.counted.blocks == held.numbered.blocks == len(held.blocks)
            assert held.counted.loose == held.numbered.loose
        self.numbered.check_integrity([held.numbered for held in self.held])
        self.counted.check_integrity([held.counted for held in self.held])
        seen = (slow.num_free, slow.num_cached, slow.evicted)
        for pool in (self.numbered, self.counted, self.plain):
            assert (pool.num_free, pool.num_cached, pool.num_evicted) == seen
            in_use = pool.usable_blocks - slow.num_free
            assert pool.usage == pytest.approx(in_use / pool.usable_blocks if pool.usable_blocks else 0.0)
        for prompt in list(self._prompts)[-_LOOKED_AT:]:
            found = len(self.lookup(prompt))
            self.lost(prompt, found, len(self._prompts[prompt]))
