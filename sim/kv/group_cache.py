"""The blocks of all groups of layers together: a request needs them in each group, and a hit must hold in each."""

import math
from collections.abc import Sequence

from sim.kv.content import Content
from sim.kv.group_blocks import NEVER, GroupBlocks, GroupRules, GroupTable
from sim.kv.group_pool import GroupPool
from sim.kv.prefix import Prefix
from sim.kv.state_blocks import StateBlocks
from sim.kv.window_blocks import ChunkBlocks, WindowBlocks
from sim.memory.kv_groups import Keeps, KvGroup

_KINDS: dict[Keeps, type[GroupBlocks]] = {
    Keeps.ALL: GroupBlocks,
    Keeps.WINDOW: WindowBlocks,
    Keeps.CHUNK: ChunkBlocks,
    Keeps.STATE: StateBlocks,
}


class Holding:
    """What a request holds in all groups, from its first attempt to enter until it ends."""

    __slots__ = ("in_flight_tokens", "junction", "prefix", "prompt_tokens", "quiet_until", "registered", "tables")

    def __init__(self, content: Content, prompt_tokens: int, tables: list[GroupTable]) -> None:
        self.prefix = Prefix(content)
        self.prompt_tokens = prompt_tokens
        self.tables = tables  # one a kind of group
        self.junction = 0  # tokens that some groups had cached at the last look, and not all
        self.registered = 0  # leading tokens that were offered to the prefix cache
        self.in_flight_tokens = 0  # scheduled, and not back yet
        self.quiet_until = 0  # up to so many tokens no block is taken, given back or registered


class GroupCache:
    """Groups of layers over one pool; groups that are alike are treated as one kind."""

    def __init__(
        self, pool: GroupPool, groups: Sequence[KvGroup], rules: GroupRules, *, states_apart: bool = False
    ) -> None:
        self.pool = pool
        self.rules = rules
        alike: dict[KvGroup, list[int]] = {}
        for index, group in enumerate(groups):
            alike.setdefault(_without_layers(group), []).append(index)
        apart = GroupPool(NEVER, enable_prefix_caching=pool.enable_prefix_caching) if states_apart else pool
        self.kinds = [
            _KINDS[one.keeps](apart if one.keeps is Keeps.STATE else pool, rules, one, tuple(indices))
            for one, indices in alike.items()
        ]
        self._in_pool = [kind for kind in self.kinds if kind.pool is pool]
        self.states = [kind for kind in self.kinds if isinstance(kind, StateBlocks)]
        self._lookups = sorted(self.kinds, key=lambda kind: kind.group.keeps is not Keeps.ALL)

    def holding(self, content: Content, prompt_tokens: int) -> Holding:
        """Return what a request holds that holds nothing yet."""
        return Holding(content, prompt_tokens, [GroupTable(len(kind.indices)) for kind in self.kinds])

    def most_blocks(self, tokens: int) -> int:
        """Return the most blocks that a request of so many tokens holds at once."""
        return sum(kind.most_blocks(tokens) for kind in self._in_pool)

    def longest_hit(self, prefix: Prefix, limit: int) -> tuple[int, int]:
        """Return the longest hit of at most `limit` tokens that holds in every group, and what one kind alone has.

        Each kind takes the length or shortens it, until all take it: groups that keep all come first, so that the
        others search no further than that.
        """
        if not self.pool.enable_prefix_caching:
            return 0, 0
        alone = self._lookups[0].longest_hit(prefix, limit)
        hit = found = alone
        while True:
            for kind in self._lookups:
                found = kind.longest_hit(prefix, found)
            if found == hit:
                return hit, alone
            hit = found

    def match(self, holding: Holding, limit: int) -> int:
        """Return the longest hit, and remember where a prefix goes on that not all groups have."""
        hit, alone = self.longest_hit(holding.prefix, limit)
        holding.junction = alone if alone > hit else 0
        return hit

    def lost(self, holding: Holding, hit: int) -> tuple[int, int]:
        """Return how many units of a prompt were computed once and cannot be hit now, and who took the first of them.

        The second is -1 where nobody took it: windows and states are not kept at every length.
        """
        prefix, align, unit = holding.prefix, self.rules.hit_tokens, self.rules.unit_tokens
        seen = min(prefix.seen_units() * unit, holding.prompt_tokens) // align * align
        if seen <= hit:
            return 0, -1
        reach = max(hit, self.longest_hit(prefix, holding.prompt_tokens)[0])
        if seen <= reach:
            return 0, -1
        takers = (kind.first_lost(prefix, seen, reach) for kind in self._lookups)
        return (seen - reach) // unit, next((taker for taker in takers if taker >= 0), -1)

    def must_wait(self, holding: Holding, hit: int) -> bool:
        """Whether a hit starts from a state that is computed in this very step."""
        return any(kind.is_fresh(holding.prefix, hit) for kind in self.states)

    def new_step(self) -> None:
        """Let the states of the last step be hit."""
        for kind in self.states:
            kind.fresh.clear()

    def hit_rows(self, holding: Holding, hit: int) -> list[list[list[int]]]:
        """Return the blocks of a hit, kind by kind."""
        return [kind.hit_rows(holding.prefix, hit) for kind in self.kinds]

    def entry_blocks(self, rows: list[list[list[int]]], tokens: int, *, capped: bool) -> int:
        """Return how many free blocks a request takes that enters with these hits and gets so many tokens in all."""
        blocks = 0
        for kind, of_kind in zip(self.kinds, rows, strict=True):
            if kind.pool is self.pool:
                blocks += kind.entry_blocks(of_kind, tokens, capped=capped)
        return blocks

    def enter(self, holding: Holding, rows: list[list[list[int]]], hit: int, tokens: int, taker: int) -> None:
        """Let a request enter with a hit, and take blocks for so many tokens in all."""
        holding.registered = hit
        for kind, table, of_kind in zip(self.kinds, holding.tables, rows, strict=True):
            kind.enter(table, of_kind)
        self.take(holding, tokens, taker)

    def retire(self, holding: Holding, settled: int) -> None:
        """Give back what the token after so many settled ones no longer looks at."""
        for kind, table in zip(self.kinds, holding.tables, strict=True):
            kind.retire(table, settled)

    def missing(self, holding: Holding, tokens: int) -> int:
        """Return how many more blocks so many tokens need."""
        blocks = 0
        for kind, table in zip(self.kinds, holding.tables, strict=True):
            if kind.pool is self.pool:
                blocks += kind.missing(table, tokens)
        return blocks

    def take(self, holding: Holding, tokens: int, taker: int) -> None:
        """Take what is missing for so many tokens."""
        for kind, table in zip(self.kinds, holding.tables, strict=True):
            kind.take(table, tokens, taker)

    def register(self, holding: Holding, tokens: int) -> None:
        """Offer what is full of so many tokens to the prefix cache, as far as a hit can reach."""
        if not self.pool.enable_prefix_caching:
            return
        align, prefix = self.rules.hit_tokens, holding.prefix
        reachable = tokens // align * align
        if reachable > holding.registered:
            holding.registered = reachable
            resumable = (holding.prompt_tokens - 1, holding.junction)
            for kind, table in zip(self.kinds, holding.tables, strict=True):
                kind.register(table, prefix, reachable, resumable)
        if self.states and reachable == (holding.prompt_tokens - 1) // align * align > 0:
            for kind, table in zip(self.kinds, holding.tables, strict=True):
                kind.hold_back(table, prefix, reachable)

    def look_ahead(self, holding: Holding) -> None:
        """Note up to how many tokens nothing will happen to a request's blocks."""
        quiet = holding.registered + self.rules.hit_tokens - 1 if self.pool.enable_prefix_caching else NEVER
        for kind, table in zip(self.kinds, holding.tables, strict=True):
            quiet = min(quiet, kind.capacity(table), kind.retires_at(table))
        holding.quiet_until = quiet

    def release(self, holding: Holding) -> None:
        """Give back everything."""
        for kind, table in zip(self.kinds, holding.tables, strict=True):
            kind.release(table)
        holding.registered = holding.quiet_until = 0

    def shared_kv_tokens(self) -> int:
        """Return the tokens shared in groups that keep all, each counted once for each further request."""
        kind = self._lookups[0]
        shared = 0 if kind.group.keeps is not Keeps.ALL else kind.num_held - kind.num_in_use
        return shared // len(kind.indices) * kind.size

    def warm(self, content: Content) -> None:
        """Cache a prefix as earlier requests that went on from it would have left it, as far as the pool reaches."""
        if not self.pool.enable_prefix_caching:
            return
        holding = self.holding(content, 0)
        align = self.rules.hit_tokens
        tokens = holding.prefix.units * self.rules.unit_tokens // align * align
        while tokens and self.entry_blocks(self._blank_rows(tokens), tokens, capped=False) > self.pool.num_free:
            tokens -= align
        holding.junction = tokens
        self.enter(holding, self._blank_rows(tokens), 0, tokens, -1)
        for kind, table in zip(self.kinds, holding.tables, strict=True):
            kind.register(table, holding.prefix, tokens, (tokens,))
        self.new_step()
        self.release(holding)

    def _blank_rows(self, tokens: int) -> list[list[list[int]]]:
        """Return rows of what is not needed of a prefix."""
        skipped = [(kind, kind.skipped_tokens(tokens) // kind.size) for kind in self.kinds]
        return [[[0] * places for _ in kind.indices] for kind, places in skipped]

    def check_integrity(self, holdings: Sequence[Holding]) -> None:
        """Raise AssertionError unless blocks and tables agree. `holdings` are all that hold blocks."""
        rows: dict[int, list[list[int]]] = {id(kind.pool): [] for kind in self.kinds}
        for holding in holdings:
            for kind, table in zip(self.kinds, holding.tables, strict=True):
                rows[id(kind.pool)] += table.rows
        for kind in self.kinds:
            kind.pool.check_blocks(rows[id(kind.pool)])
        for index, kind in enumerate(self.kinds):
            held = [block for holding in holdings for row in holding.tables[index].rows for block in row if block]
            assert (kind.num_held, kind.num_in_use) == (len(held), len(set(held))), "a kind's blocks are miscounted"


def _without_layers(group: KvGroup) -> KvGroup:
    return KvGroup(group.keeps, 0, group.block_size, group.span_tokens, group.state_blocks)


def hit_lengths(groups: Sequence[KvGroup]) -> tuple[int, int]:
    """Return the unit in which content is named and the one of which hits are multiples, in tokens."""
    sizes = [group.block_size for group in groups]
    return math.gcd(*sizes), math.lcm(*sizes)
