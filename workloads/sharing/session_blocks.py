"""How far each session alone knows its prompts, where block ids count over the whole trace.

A set of ids for each session would hold a trace several times over, and flags for each as many bytes as the trace has
blocks. Most blocks are of one session: each block's first session takes four bytes. Only what a session has in common
with one before it is listed, as numbers in order. Ids that are no small whole numbers take a set a session.
"""

from collections.abc import Hashable, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from workloads.sharing.known_blocks import KnownBlocks

_MOST_SMALL = 2**25  # 128 MiB of first sessions at most
_FIRST = 2**12


class SessionBlocks:
    """The block ids of many sessions, which share one scope."""

    def __init__(self) -> None:
        self._first = np.zeros(_FIRST, np.int32)  # number of the session that had a block first; 0: nobody
        self._numbers: dict[str, int] = {}  # from 1
        self._common: dict[int, NDArray[np.int32]] = {}  # of each session: blocks that another had first, ascending
        self._others: dict[int, KnownBlocks] = {}

    def add(self, session: str, ids: Sequence[Hashable]) -> int:
        """Return how many leading ids the session had before, and remember all of them."""
        number = self._numbers.setdefault(session, len(self._numbers) + 1)
        small = list(takewhile(_is_small, ids))
        run = self._add_small(number, np.array(small, np.int64)) if small else 0
        rest = ids[len(small) :]
        if not rest:
            return run
        others = self._others.get(number)
        if others is None:
            others = self._others[number] = KnownBlocks()
        further = others.add(rest)
        return run if run < len(small) else run + further

    def _add_small(self, number: int, blocks: NDArray[np.int64]) -> int:
        self._reach(int(blocks.max()))
        first = self._first[blocks]
        self._first[blocks[first == 0]] = number
        known = first == number
        foreign = (first != number) & (first != 0)
        if foreign.any():
            theirs = blocks[foreign].astype(np.int32)
            common = self._common.get(number)
            known[foreign] = False if common is None else np.isin(theirs, common)
            if common is None or not known[foreign].all():
                self._common[number] = np.unique(theirs if common is None else np.concatenate((common, theirs)))
        return len(known) if known.all() else int(known.argmin())

    def _reach(self, largest: int) -> None:
        if largest >= len(self._first):
            longer = np.zeros(min(2 * (largest + 1), _MOST_SMALL), np.int32)
            longer[: len(self._first)] = self._first
            self._first = longer


def _is_small(block: Hashable) -> bool:
    return isinstance(block, int) and 0 <= block < _MOST_SMALL
