"""Groups that keep the last tokens of a sequence, or those of its current chunk (vLLM 0.32.0).

What slid out is given back while the request runs. A later request needs only what its next token looks at: of a
prefix of any length the last window, of one that ends with a chunk nothing.
"""

from collections.abc import Iterable

from sim.kv.group_blocks import GroupBlocks, GroupTable


class WindowBlocks(GroupBlocks):
    """Groups whose tokens look at the last `span_tokens`, themselves included."""

    def skipped_tokens(self, computed: int) -> int:
        """Return how many leading tokens the next one no longer looks at."""
        return max(0, computed - self.group.span_tokens + 1)

    def retires_at(self, table: GroupTable) -> int:
        """Return how many tokens must be settled before another place slides out."""
        return (table.retired + 1) * self.size + self.group.span_tokens - 1

    def kept(self, first: int, stop: int, resumable: Iterable[int]) -> Iterable[int]:
        """Keep the windows that end where a hit may: at every length, every so often, or at those in `resumable`."""
        align, interval = self.rules.hit_tokens, self.rules.prefix_cache_retention_interval
        window = -(-(self.group.span_tokens - 1) // self.size)
        places: set[int] = set()
        segment = (align if interval is None else interval) // self.size
        if segment:
            if window >= segment:
                return range(first, stop)
            places.update(place for place in range(first, stop) if place % segment >= segment - window)
        if interval is not None:
            for tokens in resumable:
                end = tokens // align * align // self.size
                places.update(range(max(first, end - window), min(stop, end)))
        return sorted(places)


class ChunkBlocks(GroupBlocks):
    """Groups whose tokens look at their own stretch of `span_tokens`; all that was held is kept for later hits."""

    def skipped_tokens(self, computed: int) -> int:
        """Return how many leading tokens the next one no longer looks at."""
        return computed // self.group.span_tokens * self.group.span_tokens

    def retires_at(self, table: GroupTable) -> int:
        """Return how many tokens must be settled before another place is of an earlier chunk."""
        return -(-(table.retired + 1) * self.size // self.group.span_tokens) * self.group.span_tokens
