"""Gaps between tokens without a look at every token: how often each step was somebody's gap.

steps      1     2     3     4     5     6
turn A           |-----|-----|                    one stretch: gaps 2-3 and 3-4
turn B     |-----|                 |-----|        two stretches: gaps 1-2 and 5-6, and 2-5 between them
gap 2-3 counts once, 1-2 once, and so on: a gap and its count stand for all who saw it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.results.turn_table import TurnTable

Floats = NDArray[np.float64]


class Gaps(NamedTuple):
    """Values and how often each was seen; no count is zero."""

    seconds: Floats
    counts: NDArray[np.int32]

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Return what `np.percentile`, by linear interpolation, gives of the values repeated; NaN of none."""
        if not len(self.seconds):
            return [float("nan")] * len(shares)
        order = np.argsort(self.seconds)
        seen = np.cumsum(self.counts[order], dtype=np.int64)
        places = (seen[-1] - 1) * (np.array(shares) / 100)
        below = np.floor(places)
        ranks = np.stack([below, np.minimum(below + 1, seen[-1] - 1)])
        low, high = self.seconds[order[np.searchsorted(seen, ranks, side="right")]]
        part, step = places - below, high - low
        values: list[float] = np.where(part < 0.5, low + step * part, high - step * (1 - part)).tolist()
        return values

    def longest(self) -> float:
        """Return the largest value; NaN of none."""
        return float(self.seconds.max()) if len(self.seconds) else float("nan")

    def mean(self) -> float:
        """Return the mean of the values repeated; there is at least one."""
        return float((self.seconds * self.counts).sum() / self.counts.sum())


def token_gaps(table: TurnTable) -> Gaps:
    """Return the gaps between the tokens of each turn."""
    engine = np.repeat(table.turns["engine"], table.turns["stretches"])
    turn = np.repeat(np.arange(len(table.turns)), table.turns["stretches"])
    found = [Gaps(np.empty(0), np.empty(0, np.int32))]
    for number, log in enumerate(table.logs):
        mine = engine == number
        if mine.any():
            ends_s = log.ends()
            first, last = table.stretches[mine].T
            found += [_within(ends_s, first, last), _between(ends_s, first, last, turn[mine])]
    seconds, counts = zip(*found, strict=True)
    return Gaps(np.concatenate(seconds), np.concatenate(counts))


def _within(ends_s: Floats, first: NDArray[np.int32], last: NDArray[np.int32]) -> Gaps:
    """Return the gaps between successive steps, as far as stretches hold both."""
    start, stop = int(first.min()), int(last.max())
    counts = np.zeros(stop - start + 1, np.int32)
    np.add.at(counts, first - start, 1)
    np.subtract.at(counts, last - start, 1)
    counts = np.cumsum(counts, dtype=np.int32, out=counts)[:-1]
    seen = counts > 0
    return Gaps(np.diff(ends_s[start - 1 : stop])[seen], counts[seen])


def _between(ends_s: Floats, first: NDArray[np.int32], last: NDArray[np.int32], turn: NDArray[np.int64]) -> Gaps:
    """Return the gaps from one stretch of a turn to its next."""
    goes_on = np.flatnonzero(turn[1:] == turn[:-1])
    seconds = ends_s[first[goes_on + 1] - 1] - ends_s[last[goes_on] - 1]
    return Gaps(seconds, np.ones(len(seconds), np.int32))
