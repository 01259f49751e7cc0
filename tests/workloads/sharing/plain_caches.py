"""Caches written as plainly as they can be, to compare with: block by block, request by request."""

from collections import OrderedDict
from collections.abc import Sequence

from workloads.span import Span

Prompts = Sequence[Sequence[int]]  # each a path of blocks


def points(spans: Sequence[Span]) -> list[tuple[object, int]]:
    """Return every token of some spans by itself."""
    return [(content, start + at) for content, start, length in spans for at in range(length)]


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many leading items agree."""
    same = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        same += 1
    return same


def lru_hits(prompts: Prompts, size: int) -> list[int]:
    """Return the leading blocks each prompt hits; all are touched then, the deepest first."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = []
    for path in prompts:
        hits.append(next((at for at, block in enumerate(path) if block not in cache), len(path)))
        for block in reversed(path):
            cache[block] = None
            cache.move_to_end(block)
            while len(cache) > size:
                cache.popitem(last=False)
    return hits


def most_block_hits(prompts: Prompts, size: int) -> int:
    """Return the leading blocks hit by the best of all ways to keep blocks between prompts, by trying them all."""
    reached: dict[frozenset[int], int] = {frozenset(): 0}
    for path in prompts:
        following: dict[frozenset[int], int] = {}
        for kept, hits in reached.items():
            found = hits + next((at for at, block in enumerate(path) if block not in kept), len(path))
            for chosen in _subsets(kept | set(path), size):
                following[chosen] = max(following.get(chosen, 0), found)
        reached = following
    return max(reached.values())


def _subsets(blocks: frozenset[int], size: int) -> set[frozenset[int]]:
    found = {frozenset[int]()}
    for block in blocks:
        found |= {one | {block} for one in found if len(one) < size}
    return found


def idle_hits(prompts: Prompts, begin_s: Sequence[float], end_s: Sequence[float], kept_s: float) -> list[int]:
    """Return the leading blocks each prompt hits if a block is there for so long after its last request ended."""
    last_s: dict[int, float] = {}
    hits = []
    for path, begins_s, ends_s in zip(prompts, begin_s, end_s, strict=True):
        there = [block in last_s and max(begins_s - last_s[block], 0) <= kept_s for block in path]
        hits.append(there.index(False) if False in there else len(there))
        last_s |= dict.fromkeys(path, ends_s)
    return hits
