"""Groups of layers that keep all of a sequence, and what is common to all kinds of groups (vLLM 0.32.0).

Groups that are alike hold their blocks in lockstep, so they are treated together: one table, a row of blocks a group.
A row has one place a block of tokens; 0 stands for a block that is not needed (any more).

    row    | 0 | 0 | 7 | 3 | 9 |        places 0 and 1 slid out of a window; 7 and 3 are full, 9 fills
    tokens   ^retired      ^registered
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from sim.kv.group_pool import GroupPool
from sim.kv.prefix import Place, Prefix
from sim.memory.kv_groups import Keeps, KvGroup

NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What all groups of an engine go by, in tokens."""

    unit_tokens: int  # of the content tree: divides the block size of each group
    hit_tokens: int  # a hit is a multiple of it: the least common multiple of the block sizes
    max_model_len: int
    max_num_batched_tokens: int
    steps_in_flight: int = 1  # two where they overlap
    # 0 keeps of windows and states only what the same prompt or one that shares a prefix needs; more keeps a
    # checkpoint every so many tokens too; None keeps all.
    prefix_cache_retention_interval: int | None = 0

    @property
    def in_flight_tokens(self) -> int:
        """Scheduled at once and not yet settled, at most."""
        return self.max_num_batched_tokens * self.steps_in_flight


class GroupTable:
    """What a request holds in groups that are alike."""

    __slots__ = ("registered", "retired", "rows", "started")

    def __init__(self, groups: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(groups)]
        self.registered = 0  # leading places that were offered to the prefix cache
        self.retired = 0  # leading places that are no longer needed
        self.started = False  # has got blocks of its own


class GroupBlocks:
    """Groups that keep every token."""

    def __init__(self, pool: GroupPool, rules: GroupRules, group: KvGroup, indices: tuple[int, ...]) -> None:
        self.pool = pool
        self.rules = rules
        self.group = group
        self.indices = indices  # of these groups among all
        self.size = group.block_size
        self.units = max(1, group.block_size // rules.unit_tokens)
        self.num_held = 0  # blocks in tables,
        self.num_in_use = 0  # and those of them that are different
        self._cap = group.blocks_for(rules.max_model_len, rules.in_flight_tokens)

    def skipped_tokens(self, computed: int) -> int:  # noqa: ARG002 - those that skip some go by it
        """Return how many leading tokens the next one no longer looks at."""
        return 0

    def retires_at(self, table: GroupTable) -> int:  # noqa: ARG002
        """Return how many tokens must be settled before another place is no longer needed."""
        return NEVER

    def most_blocks(self, tokens: int) -> int:
        """Return the most blocks that a request of so many tokens holds at once."""
        return min(-(-tokens // self.size), self._cap) * len(self.indices)

    # The prefix cache.

    def is_cached(self, prefix: Prefix, place: int) -> bool:
        """Whether all of these groups have what belongs in a place of a row."""
        chain, unit = self._named(prefix, place)
        find = self.pool.find
        return all(find(chain, index, unit) for index in self.indices)

    def longest_hit(self, prefix: Prefix, limit: int) -> int:
        """Return the longest hit of at most `limit` tokens: all that its next token looks at is cached."""
        align = self.rules.hit_tokens
        tokens = limit // align * align
        while tokens:
            missing = self._first_missing(prefix, self.skipped_tokens(tokens) // self.size, tokens // self.size)
            if missing is None:
                break
            tokens = missing * self.size // align * align
        return tokens

    def _first_missing(self, prefix: Prefix, first: int, stop: int) -> int | None:
        """Return the first place without its block: by halving, where no block outlives those before it."""
        if self.group.keeps is not Keeps.ALL:
            return next((place for place in range(first, stop) if not self.is_cached(prefix, place)), None)
        place = bisect_left(range(first, stop), 1, key=lambda place: not self.is_cached(prefix, place)) + first
        return None if place == stop else place

    def first_lost(self, prefix: Prefix, upto: int, hit: int) -> int:
        """Return who took the first block that a longer hit, of `upto` tokens, would need; -1 if none was taken."""
        first = max(self.skipped_tokens(upto), hit) // self.size
        for place in range(first, upto // self.size):
            chain, unit = self._named(prefix, place)
            for index in self.indices:
                if not self.pool.find(chain, index, unit):
                    return self.pool.taker(chain, index, unit)
        return -1

    def hit_rows(self, prefix: Prefix, tokens: int) -> list[list[int]]:
        """Return the rows of a hit."""
        first, stop = self.skipped_tokens(tokens) // self.size, tokens // self.size
        named = [self._named(prefix, place) for place in range(first, stop)]
        find = self.pool.find
        return [[0] * first + [find(chain, index, unit) for chain, unit in named] for index in self.indices]

    def register(self, table: GroupTable, prefix: Prefix, tokens: int, resumable: Iterable[int]) -> None:
        """Give full blocks their content up to so many tokens.

        `resumable` are lengths at which a later request is known to look for a hit.
        """
        first, stop = table.registered, tokens // self.size
        if stop <= first:
            return
        table.registered = stop
        for place in self.kept(first, stop, resumable):
            if table.rows[0][place]:
                self._register_place(table, prefix, place)

    def hold_back(self, table: GroupTable, prefix: Prefix, tokens: int) -> None:
        """Let nobody hit in this step what the request itself goes on from; that matters for states alone."""

    def kept(self, first: int, stop: int, resumable: Iterable[int]) -> Iterable[int]:  # noqa: ARG002
        """Return which of these places are kept for later hits."""
        return range(first, stop)

    def _register_place(self, table: GroupTable, prefix: Prefix, place: int) -> None:
        chain, unit = self._named(prefix, place)
        for index, row in zip(self.indices, table.rows, strict=True):
            self.pool.name(row[place], chain, index, unit)

    def _named(self, prefix: Prefix, place: int) -> Place:
        return prefix.at((place + 1) * self.units - 1)

    # Blocks of a request.

    def entry_blocks(self, rows: list[list[int]], tokens: int, *, capped: bool) -> int:
        """Return how many free blocks a request takes that enters with these hits and gets so many tokens in all.

        `capped` counts on what slides out on the way being used again.
        """
        needed = -(-tokens // self.size)
        new = max((min(needed, self._cap) if capped else needed) - len(rows[0]), 0)
        return new * len(rows) + sum(self.pool.num_idle(row) for row in rows)

    def enter(self, table: GroupTable, rows: list[list[int]]) -> None:
        """Put the blocks of a hit into an empty table."""
        table.rows = rows
        table.registered = len(rows[0])
        table.retired = next((place for place, block in enumerate(rows[0]) if block), len(rows[0]))
        for row in rows:
            self.num_in_use += self.pool.share(row)
            self.num_held += len(row) - table.retired

    def capacity(self, table: GroupTable) -> int:
        """Return for how many tokens there are blocks."""
        return len(table.rows[0]) * self.size

    def missing(self, table: GroupTable, tokens: int) -> int:
        """Return how many more blocks so many tokens need."""
        return max(-(-tokens // self.size) - len(table.rows[0]), 0) * len(table.rows)

    def take(self, table: GroupTable, tokens: int, taker: int) -> None:
        """Take what is missing for so many tokens."""
        count = -(-tokens // self.size) - len(table.rows[0])
        for row in table.rows:
            self._take(row, count, taker)

    def _take(self, row: list[int], count: int, taker: int) -> None:
        if count > 0:
            row += self.pool.hand_out(count, taker)
            self.num_held += count
            self.num_in_use += count

    def retire(self, table: GroupTable, settled: int) -> None:
        """Give back what the token after so many no longer looks at; it keeps its content until it is evicted."""
        stop = min(self.skipped_tokens(settled) // self.size, len(table.rows[0]))
        if stop <= table.retired:
            return
        for row in table.rows:
            self._drop([block for block in reversed(row[table.retired : stop]) if block])
            row[table.retired : stop] = [0] * (stop - table.retired)
        table.retired = stop

    def release(self, table: GroupTable) -> None:
        """Give back all, the last block first."""
        for row in table.rows:
            self._drop([block for block in reversed(row) if block])
            row.clear()
        table.registered = table.retired = 0
        table.started = False

    def _drop(self, blocks: list[int]) -> None:
        self.num_held -= len(blocks)
        self.num_in_use -= self.pool.drop(blocks)
