"""The optimum: evict what is used again last (Belady), what is never used again at once, the deepest block first.

A block's next use comes no later than that of any block behind it, so what is kept for one future request is a stretch
of its path: three numbers a request instead of a heap of blocks. Nothing that knows only the past hits more blocks;
with partial blocks, which are worth less, that is not quite true of tokens.
"""

import heapq

from workloads.sharing.block_paths import BlockPaths, runs

Uses = list[list[tuple[int, int, int]]]


def next_uses(paths: BlockPaths) -> Uses:
    """Return of each request the runs of its path by the request that uses them next: from, to, which."""
    uses: Uses = [[] for _ in range(len(paths))]
    for request, coming in runs(paths, backwards=True):
        uses[request] = coming
    return uses


def optimum_hits(paths: BlockPaths, uses: Uses, blocks: int, *, measured_from: int = 0) -> int:
    """Return the tokens hit with a cache of so many blocks by the requests from `measured_from` on."""
    begin, end = [0] * len(paths), [0] * len(paths)  # of what is kept for each request
    farthest: list[int] = []  # requests something is kept for, negative: a heap
    kept = tokens = 0
    for request, coming in enumerate(uses):
        found = end[request]
        kept -= found - begin[request]
        begin[request] = end[request] = 0
        if found and request >= measured_from:
            tokens += paths.hit_tokens(request, found)
        for low, high, user in coming:
            if end[user] > begin[user]:
                begin[user] = low  # what was kept begins where this run ends
            else:
                begin[user], end[user] = low, high
                heapq.heappush(farthest, -user)
            kept += high - low
        while kept > blocks:
            user = -farthest[0]
            cut = min(kept - blocks, end[user] - begin[user])
            end[user] -= cut
            kept -= cut
            if end[user] == begin[user]:
                heapq.heappop(farthest)
    return tokens
