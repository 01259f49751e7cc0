"""A trace as paths: each prompt the numbers of its blocks, in the order in which the requests come.

Numbers are of blocks behind their prefix, so the paths form a tree: two prompts that hold a block hold all before it.
That is what lets LRU and the optimum be told for runs of blocks instead of single ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BlockPaths:
    """Requests in order. Paths lie one behind another in `blocks`."""

    blocks: NDArray[np.int32]
    starts: NDArray[np.int64]  # of each path, and the end of the last
    prompt_tokens: NDArray[np.int32]
    shared_blocks: NDArray[np.int32]  # of each path's front: the same in all sessions, whatever their numbers say
    block_tokens: int
    count: int  # distinct blocks, numbered from 0
    begin_s: NDArray[np.float64] | None = None  # of each request; None: the trace has no times
    end_s: NDArray[np.float64] | None = None  # of its answer, or its beginning where that is not told

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def hit_tokens(self, request: int, blocks: int) -> int:
        """Return what a hit of so many leading blocks is worth: the last block may be partial."""
        return min(blocks * self.block_tokens, int(self.prompt_tokens[request]))

    def with_shared_fronts(self) -> "BlockPaths":
        """Return the paths with the front that all sessions share numbered as one."""
        most = int(self.shared_blocks.max(initial=0))
        if not most:
            return self
        names, lengths = np.arange(self.count + most, dtype=np.int32), np.diff(self.starts)
        fronts = np.minimum(self.shared_blocks, lengths).tolist()
        for begin, length in zip(self.starts.tolist(), fronts, strict=False):
            names[self.blocks[begin : begin + length]] = np.arange(self.count, self.count + length)
        blocks = names[self.blocks]  # wherever a block is: a subagent may have its parent's front
        blocks, count = numbered_from_0(blocks)
        return replace(self, blocks=blocks, count=count, shared_blocks=np.zeros_like(self.shared_blocks))


def runs(paths: BlockPaths, *, backwards: bool = False) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Yield each request with the runs of its path that one earlier request touched last: from, to, which.

    What no earlier request touched is in no run. Backwards, it is the request that touches the run next.
    """
    last = np.full(paths.count, -1, np.int32)
    starts = paths.starts.tolist()
    order = range(len(paths))
    for request in reversed(order) if backwards else order:
        path = paths.blocks[starts[request] : starts[request + 1]]
        if not len(path):
            yield request, []
            continue
        owners = last[path]
        edges = np.flatnonzero(owners[1:] != owners[:-1]) + 1
        bounds = [0, *edges.tolist(), len(path)]
        firsts = owners[bounds[:-1]].tolist()
        last[path] = request
        yield (
            request,
            [(low, high, owner) for low, high, owner in zip(bounds, bounds[1:], firsts, strict=False) if owner >= 0],
        )


def numbered_from_0(blocks: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
    """Return blocks numbered without gaps, and how many there are."""
    there = np.zeros(int(blocks.max(initial=-1)) + 1, np.bool_)
    there[blocks] = True
    numbers = np.cumsum(there, dtype=np.int32)
    return numbers[blocks] - 1, int(numbers[-1]) if len(numbers) else 0


def as_tree(blocks: NDArray[np.int32], distinct: int, starts: NDArray[np.int64]) -> tuple[NDArray[np.int32], int]:
    """Return blocks numbered by their whole prefix, and how many there are.

    Ids should say that already. One that follows different ids, or comes twice in a path, stands for several blocks.
    """
    before = np.empty_like(blocks)
    before[1:] = blocks[:-1]
    before[starts[:-1][np.diff(starts) > 0]] = -1
    parents = np.full(distinct, -1, np.int32)
    parents[blocks[::-1]] = before[::-1]  # of equal numbers the first is written last
    if np.array_equal(parents[blocks], before):
        return blocks, distinct
    numbers: dict[tuple[int, int], int] = {}
    ends = set(starts.tolist())
    chained, number = np.empty_like(blocks), -1
    for at, block in enumerate(blocks.tolist()):
        number = numbers.setdefault((-1 if at in ends else number, block), len(numbers))
        chained[at] = number
    return chained, len(numbers)
