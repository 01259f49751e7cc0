"""Hits against time kept: content found again if the last request that had it ended no longer than so ago."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.sharing.block_paths import BlockPaths, runs


@dataclass(frozen=True, slots=True)
class KeptCurve:
    """Tokens that come back, by how long they had been idle, ascending; `upto` are their sums."""

    idle_s: NDArray[np.float64]
    upto: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """All that come back, however late."""
        return int(self.upto[-1]) if len(self.upto) else 0

    def at(self, kept_s: float) -> int:
        """Return the tokens hit if content is kept so long."""
        place = int(np.searchsorted(self.idle_s, kept_s, side="right"))
        return int(self.upto[place - 1]) if place else 0

    def time_for(self, share: float) -> float | None:
        """Return how long content must be kept for a share of all that come back; None if nothing does."""
        if not self.tokens:
            return None
        return float(self.idle_s[np.searchsorted(self.upto, share * self.tokens)])


def kept_curve(paths: BlockPaths) -> KeptCurve:
    """Return the curve of a trace with times, whose requests come in their order."""
    assert paths.begin_s is not None
    assert paths.end_s is not None
    begin_s, end_s = paths.begin_s.tolist(), paths.end_s.tolist()
    idle_s: list[float] = []
    tokens: list[int] = []
    for request, known in runs(paths):
        longest_s = 0.0  # a block is hit only with all before it
        for low, high, owner in known:
            longest_s = max(longest_s, begin_s[request] - end_s[owner])
            idle_s.append(longest_s)
            tokens.append(paths.hit_tokens(request, high) - paths.hit_tokens(request, low))
    order = np.argsort(np.array(idle_s), kind="stable")
    return KeptCurve(np.array(idle_s)[order], np.cumsum(np.array(tokens, np.int64)[order]))
