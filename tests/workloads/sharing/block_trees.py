"""Random trees of prompts for hypothesis, and paths made of them."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from workloads.sharing.block_paths import BlockPaths

BLOCK_TOKENS = 4


@st.composite
def prompts(draw: st.DrawFn, *, most: int = 25, deepest: int = 6) -> list[list[int]]:
    """Return paths of blocks numbered by their whole prefix; two letters make them meet often."""
    words = draw(st.lists(st.text("ab", max_size=deepest), min_size=1, max_size=most))
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(word[: at + 1], len(numbers)) for at in range(len(word))] for word in words]


def paths_of(
    prompts: Sequence[Sequence[int]], lacking: int = 0, times_s: Sequence[tuple[float, float]] | None = None
) -> BlockPaths:
    """Return paths whose last block lacks some tokens."""
    starts = np.cumsum([0, *map(len, prompts)])
    blocks = np.array([block for path in prompts for block in path], np.int32)
    tokens = np.array([max(len(path) * BLOCK_TOKENS - lacking, 1) for path in prompts], np.int32)
    begin_s, end_s = (None, None) if times_s is None else (np.array(column) for column in zip(*times_s, strict=True))
    none = np.zeros(len(prompts), np.int32)
    count = int(blocks.max(initial=-1)) + 1
    return BlockPaths(blocks, starts.astype(np.int64), tokens, none, BLOCK_TOKENS, count, begin_s, end_s)
