"""LRU over all cache sizes in one pass, by stack distances.

A request touches its blocks deepest first, so that a tail is evicted before its prefix. The cache of C blocks then
holds the C blocks touched last, whatever C, and a block is hit if fewer than C were touched since. Along a path, blocks
touched last by one request lie next to each other and their distances are consecutive, so one look at a Fenwick tree
over requests, which holds how many blocks each touched last, tells those of a whole run.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.sharing.block_paths import BlockPaths, runs


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Tokens hit at each cache size: `hit_tokens[c]` with c blocks; larger caches hit what the last entry says."""

    hit_tokens: NDArray[np.int64]

    def at(self, blocks: int) -> int:
        """Return the tokens hit with a cache of so many blocks."""
        return int(self.hit_tokens[min(blocks, len(self.hit_tokens) - 1)])

    def smallest(self, tokens: float) -> int:
        """Return the fewest blocks that hit at least so many tokens, which must not be more than any size hits."""
        return int(np.searchsorted(self.hit_tokens, tokens))


def lru_curve(paths: BlockPaths, *, measured_from: int = 0) -> SizeCurve:
    """Return the tokens hit by the requests from `measured_from` on; those before fill the cache."""
    curve = np.zeros(paths.count + 2, np.int64)  # first differences: runs of blocks by their distance
    lacking: dict[int, int] = {}  # tokens that partial blocks at a distance lack
    held = _Counts(len(paths))
    starts, prompts = paths.starts.tolist(), paths.prompt_tokens.tolist()
    for request, known in runs(paths):
        length = starts[request + 1] - starts[request]
        end = distance = 0
        if request >= measured_from:
            for low, high, owner in known:
                newer = held.after(owner)
                curve[newer + 1] += 1
                distance = newer + high - low
                curve[distance + 1] -= 1
                end = high
            beyond = end * paths.block_tokens - prompts[request]
            if beyond > 0:
                lacking[distance] = lacking.get(distance, 0) + beyond
        for low, high, owner in known:
            held.add(owner, low - high)
        held.add(request, length)
    np.cumsum(curve, out=curve)  # blocks at each distance
    curve *= paths.block_tokens
    curve[list(lacking) or slice(0)] -= np.array(list(lacking.values()), np.int64)
    np.cumsum(curve, out=curve)
    return SizeCurve(curve[:-1])


class _Counts:
    """A Fenwick tree: a count a request, and sums of the counts behind one."""

    __slots__ = ("_sums", "_total")

    def __init__(self, requests: int) -> None:
        self._sums = [0] * (requests + 1)
        self._total = 0

    def add(self, request: int, count: int) -> None:
        self._total += count
        sums, at = self._sums, request + 1
        while at < len(sums):
            sums[at] += count
            at += at & -at

    def after(self, request: int) -> int:
        sums, at, upto = self._sums, request + 1, 0
        while at:
            upto += sums[at]
            at &= at - 1
        return self._total - upto
