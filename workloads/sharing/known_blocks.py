"""Which block ids were seen. Whole numbers that lie close, as traces have them after anonymising, take a byte each."""

from collections.abc import Hashable, Sequence

_MOST_SMALL = 2**26  # 64 MiB of flags at most
_FIRST = 2**12
_MOST_BYTES_EACH = 64  # flags for each id that is known; a set takes more


class KnownBlocks:
    """A set of block ids of one scope that tells how far a prompt is known."""

    __slots__ = ("_flags", "_others", "count")

    def __init__(self) -> None:
        self._flags = bytearray()
        self._others: set[Hashable] = set()
        self.count = 0  # distinct ids

    def add(self, ids: Sequence[Hashable]) -> int:
        """Return how many leading ids are known, and know all of them from now on."""
        if not ids:
            return 0
        try:
            return self._add_small(ids)  # type: ignore[arg-type]  # raises TypeError for what are no numbers
        except (IndexError, TypeError):
            return self._add_any(ids)

    def _add_small(self, ids: Sequence[int]) -> int:
        """Add ids below the flags' length; raises IndexError, having changed nothing, if one is not."""
        flags = self._flags
        if max(ids) >= len(flags):
            self._grow(max(ids), len(ids))
            flags = self._flags
        if min(ids) < 0:  # would count from the end
            raise IndexError
        run = 0
        for block in ids:
            if not flags[block]:
                break
            run += 1
        new = 0
        for block in ids[run:] if run else ids:
            if not flags[block]:
                flags[block] = 1
                new += 1
        self.count += new
        return run

    def _grow(self, largest: int, adding: int) -> None:
        """Make room for a flag; raises IndexError, having changed nothing, where too many would stand for nothing."""
        if largest >= _MOST_SMALL or largest >= max(_FIRST, _MOST_BYTES_EACH * (self.count + adding)):
            raise IndexError
        length = min(max(_FIRST, 2 * (largest + 1)), _MOST_SMALL)
        self._flags.extend(bytes(max(length - len(self._flags), 0)))
        within = [block for block in self._others if isinstance(block, int) and 0 <= block < length]
        for block in within:
            self._flags[block] = 1
        self._others.difference_update(within)

    def _add_any(self, ids: Sequence[Hashable]) -> int:
        run = len(ids)
        for place, block in enumerate(ids):
            if not self._known(block):
                run = min(run, place)
                self.count += 1
        return run

    def _known(self, block: Hashable) -> bool:
        """Tell whether an id was known, and know it."""
        if isinstance(block, int) and 0 <= block < len(self._flags):
            known = bool(self._flags[block])
            self._flags[block] = 1
            return known
        known = block in self._others
        self._others.add(block)
        return known
