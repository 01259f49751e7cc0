"""The identity of a full KV block: its own tokens and everything before them.

vLLM chains hashes: key = hash(parent key, tokens of the block). Here tokens have no values, so a block is named by
its place in a tree of contents. A chain is an unbranched run of blocks on one line of content, as long as anybody
needs it; block `i` of it follows block `i - 1`. What a prompt holds is a few chains, each from its first block on:
nothing is hashed token by token, and a prefix of any length is one look-up.

    span   |---- shared, 40 tokens ----|-- s7, 24 tokens --|      block_size 16
    block  |   0    |   1    |   2         |   3    |             block 2 straddles two spans
    chain  |   A 0      A 1  |   B 0       |  C 0   |
"""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from workloads.span import Span, joined

if TYPE_CHECKING:
    from sim.kv.extent import Extent, Loss


class GroupCopies:
    """Which blocks hold a chain for several groups of layers, and who took what is gone; by group and block of it."""

    __slots__ = ("blocks", "takers")

    def __init__(self) -> None:
        self.blocks: dict[tuple[int, int], list[int]] = {}  # of copies the first made first
        self.takers: dict[tuple[int, int], int] = {}


class Chain:
    """A run of block contents; what the pool knows of it stands beside it, so that no look-up finds it again.

    Blocks below `cached` are in the cache, those from `cached` to `seen` were and are lost: a block never outlives
    the one before it, for whoever holds a block holds those before it too, and frees them later.
    """

    __slots__ = ("cached", "copies", "groups", "key", "losses", "seen", "users", "writer")

    def __init__(self, key: Hashable = None) -> None:
        self.key = key  # in the tree
        self.cached = 0
        self.seen = 0
        self.copies: list[Extent] = []  # by start; more than one of a block where its content is held twice
        self.losses: list[Loss] = []  # evictions of the lost stretch, the latest, which has the lowest start, last
        self.groups: GroupCopies | None = None  # of a pool of several groups, in place of `copies` and `losses`
        self.users = 0  # requests under way that have it
        self.writer: Any = None  # the one request that may hold blocks of it without having registered them yet


Part = tuple[Chain, int]  # the first so many blocks of a chain
Content = tuple[Part, ...]


class ContentTree:
    """Gives equal block contents the same place in the same chain."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._root = Chain()
        self._chains: dict[Hashable, Chain] = {}

    def content(self, spans: Iterable[Span]) -> Content:
        """Return the chains that hold the full blocks of a prompt; a partial last block has no content."""
        size, chains = self.block_size, self._chains
        parts: list[Part] = []
        parent, at = self._root, 0  # the last block: the `at`-th of chain `parent`
        pieces: list[Span] = []  # a block under way that straddles spans
        filled = 0
        for content, span_start, span_length in joined(spans):
            start, length = span_start, span_length
            if filled:
                taken = min(size - filled, length)
                pieces.append(Span(content, start, taken))
                filled, start, length = filled + taken, start + taken, length - taken
                if filled < size:
                    continue
                parent, at = self._below((parent, at, tuple(pieces))), 1
                parts.append((parent, 1))
                pieces, filled = [], 0
            blocks = length // size
            if blocks:
                key = (parent, at, content, start)
                chain = chains.get(key)
                parent, at = chain or self._below(key), blocks
                parts.append((parent, blocks))
                start, length = start + blocks * size, length - blocks * size
            if length:
                pieces, filled = [Span(content, start, length)], length
        return tuple(parts)

    def _below(self, key: Hashable) -> Chain:
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = Chain(key)
        return chain

    def forget(self, content: Content, first: int) -> None:
        """Drop the chains of a prompt that begin at its block `first` or later: nobody will ask for them again.

        What the pool still holds of them stays there until it is evicted.
        """
        at = 0
        for chain, blocks in content:
            if at >= first:
                self._chains.pop(chain.key, None)
            at += blocks

    def takers(self) -> set[int]:
        """Return everybody who may be asked for as the taker of a lost block."""
        takers = {id(loss.takers): loss.takers for chain in self._chains.values() for loss in chain.losses}
        alone = {taker for some in takers.values() for taker in ([some] if isinstance(some, int) else some)}
        groups = [chain.groups for chain in self._chains.values() if chain.groups is not None]
        return alone.union(*(copies.takers.values() for copies in groups))
