"""The reference of `sim.kv.content`: a number for every block content, its own tokens and everything before them.

A block is named by its place in a tree of contents: a node number. Two prompts get the same node for block `i` exactly
if their first `(i + 1) * block_size` tokens agree. Nothing is hashed token by token: a stretch of blocks
inside one span is a run of consecutive node numbers, found by one look-up.

    span   |---- shared, 40 tokens ----|-- s7, 24 tokens --|      block_size 16
    block  |   0    |   1    |   2         |   3    |             block 2 straddles two spans
    node      n        n+1       m             k
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.span import Span, joined

Nodes = NDArray[np.int64]


class _Run(NamedTuple):
    first: int
    blocks: int


class ContentTree:
    """Gives each distinct block content a node number, from 1 up; 0 means no content."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.num_nodes = 1
        self._runs: dict[Hashable, _Run] = {}

    def nodes(self, spans: Iterable[Span]) -> Nodes:
        """Return the node of every full block of a prompt; a partial last block has none."""
        size = self.block_size
        runs: list[_Run] = []
        parent = 0
        pieces: list[Span] = []  # a block under way that straddles spans
        filled = 0
        for content, span_start, span_length in joined(spans):
            start, length = span_start, span_length
            if filled:
                part = min(size - filled, length)
                pieces.append(Span(content, start, part))
                filled, start, length = filled + part, start + part, length - part
                if filled < size:
                    continue
                parent = self._walk(runs, parent, tuple(pieces), 1)
                pieces, filled = [], 0
            blocks, rest = divmod(length, size)
            while blocks:
                known = len(runs)
                parent = self._walk(runs, parent, (content, start), blocks)
                taken = runs[known].blocks
                start, blocks = start + taken * size, blocks - taken
            if rest:
                pieces, filled = [Span(content, start, rest)], rest
        if not runs:
            return np.empty(0, np.int64)
        return np.concatenate([np.arange(run.first, run.first + run.blocks) for run in runs])

    def _walk(self, runs: list[_Run], parent: int, content: Hashable, blocks: int) -> int:
        """Append the run below `parent`, made if new, cut to `blocks`; return its last node."""
        key = (parent, content)
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(self.num_nodes, blocks)
            self.num_nodes += blocks
        taken = _Run(run.first, min(run.blocks, blocks))
        runs.append(taken)
        return taken.first + taken.blocks - 1
