"""KV memory as engines had it before paging: one unbroken area a request, in the first hole that is large enough.

Areas of different lengths leave holes between them when they go. Free memory that no hole offers in one piece is lost
to whoever waits for it: external fragmentation. What an area holds beyond the tokens in it is internal fragmentation.
"""

from bisect import insort


class ContiguousMemory:
    """`total_tokens` in a row; holes are kept in order and merged."""

    def __init__(self, total_tokens: int) -> None:
        self.total_tokens = total_tokens
        self.free_tokens = total_tokens
        self._holes: list[tuple[int, int]] = [(0, total_tokens)] if total_tokens else []  # start, length
        self._areas: dict[int, int] = {}  # length by start

    @property
    def largest_hole_tokens(self) -> int:
        """The longest area that can be taken now."""
        return max((length for _, length in self._holes), default=0)

    def take(self, tokens: int) -> int | None:
        """Return the start of an area in the first hole that is large enough, or None."""
        for index, (start, length) in enumerate(self._holes):
            if length >= tokens:
                self._shorten(index, tokens)
                self._areas[start] = tokens
                return start
        return None

    def give_back(self, start: int) -> None:
        """Free an area; it becomes one hole with those it touches."""
        length = self._areas.pop(start)
        self.free_tokens += length
        hole = (start, length)
        insort(self._holes, hole)
        index = self._holes.index(hole)
        if index + 1 < len(self._holes) and self._holes[index + 1][0] == start + length:
            hole = (start, length + self._holes.pop(index + 1)[1])
            self._holes[index] = hole
        if index and sum(self._holes[index - 1]) == start:
            before, size = self._holes[index - 1]
            self._holes[index - 1 : index + 1] = [(before, size + hole[1])]

    def grow(self, start: int, tokens: int) -> int | None:
        """Make an area longer; return where it is then, or None where no room is.

        It stays where it is if the hole behind it is long enough. Else its content is copied to a hole that holds all
        of it, and the old area is free only after that.
        """
        length = self._areas[start]
        more, end = tokens - length, start + length
        for index, (hole, free) in enumerate(self._holes):
            if hole == end and free >= more:
                self._shorten(index, more)
                self._areas[start] = tokens
                return start
        moved = self.take(tokens)
        if moved is not None:
            self.give_back(start)
        return moved

    def _shorten(self, index: int, tokens: int) -> None:
        """Take so many tokens off the front of a hole."""
        start, length = self._holes[index]
        if length == tokens:
            del self._holes[index]
        else:
            self._holes[index] = (start + tokens, length - tokens)
        self.free_tokens -= tokens

    def check_integrity(self) -> None:
        """Raise AssertionError unless holes and areas tile the memory, and no two holes touch."""
        pieces = sorted([*self._holes, *self._areas.items()])
        at = 0
        for start, length in pieces:
            assert start == at, (start, at)
            assert length > 0, (start, length)
            at += length
        assert at == self.total_tokens, at
        assert all(sum(one) < two[0] for one, two in zip(self._holes, self._holes[1:], strict=False))
        assert self.free_tokens == sum(length for _, length in self._holes)
