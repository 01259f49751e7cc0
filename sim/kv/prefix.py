"""The content of a request by position: what its tokens up to any boundary are called."""

from bisect import bisect_right
from itertools import accumulate

from sim.kv.content import Chain, Content

Place = tuple[Chain, int]  # a unit, by the chain it lies in and where in it


class Prefix:
    """A prompt and its answer; positions count units, the blocks of the tree that named the content.

    Groups of layers differ in tokens per block, but each of their blocks ends where a unit ends, and is named by it.
    """

    __slots__ = ("_content", "_stops")

    def __init__(self, content: Content) -> None:
        self._content = content
        self._stops = list(accumulate(blocks for _, blocks in content))

    @property
    def units(self) -> int:
        """Units that are full."""
        return self._stops[-1] if self._stops else 0

    def at(self, unit: int) -> Place:
        """Return where a unit lies."""
        index = bisect_right(self._stops, unit)
        return self._content[index][0], unit - (self._stops[index - 1] if index else 0)

    def seen_units(self) -> int:
        """Return up to where anybody's blocks of this content were ever cached."""
        seen = start = 0
        for (chain, blocks), stop in zip(self._content, self._stops, strict=True):
            if chain.seen:
                seen = start + min(chain.seen, blocks)
            start = stop
        return seen
