"""A few groups of layers over a small pool, and content to fill them with."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sim.kv.content import Content, ContentTree
from sim.kv.group_blocks import GroupRules
from sim.kv.group_cache import GroupCache, Holding, hit_lengths
from sim.kv.group_pool import GroupPool
from sim.memory.kv_groups import Keeps, KvGroup
from workloads.span import Span


def full(block_size: int) -> KvGroup:
    """Return a group that keeps every token."""
    return KvGroup(Keeps.ALL, 1, block_size)


def window(block_size: int, tokens: int) -> KvGroup:
    """Return a group of sliding windows."""
    return KvGroup(Keeps.WINDOW, 1, block_size, tokens)


def chunk(block_size: int, tokens: int) -> KvGroup:
    """Return a group of local chunks."""
    return KvGroup(Keeps.CHUNK, 1, block_size, tokens)


def state(block_size: int, blocks: int = 2) -> KvGroup:
    """Return a group of states; 2 blocks are those of mode "align" without draft tokens."""
    return KvGroup(Keeps.STATE, 1, block_size, state_blocks=blocks)


class Small:
    """Groups of layers over `blocks` usable blocks; keeps all windows and states unless told otherwise."""

    def __init__(
        self, groups: Sequence[KvGroup], blocks: int, *, interval: int | None = None, caching: bool = True
    ) -> None:
        unit, hit = hit_lengths(groups)
        self.pool = GroupPool(blocks + 1, enable_prefix_caching=caching)
        self.cache = GroupCache(self.pool, groups, GroupRules(unit, hit, 1000, 16, 1, interval))
        self.tree = ContentTree(unit)
        self.holdings: list[Holding] = []

    def content(self, name: str, tokens: int, shared: int = 0) -> Content:
        """Return content that begins with a shared prefix."""
        return self.tree.content([Span("shared", 0, shared), Span(name, 0, tokens - shared)])

    def request(self, name: str, tokens: int, shared: int = 0) -> Holding:
        """Return a request that holds nothing yet; all its tokens are its prompt."""
        holding = self.cache.holding(self.content(name, tokens, shared), tokens)
        self.holdings.append(holding)
        return holding

    def enter(self, holding: Holding, tokens: int) -> int:
        """Let a request enter with what it hits and compute up to so many tokens; return the hit."""
        hit = self.cache.match(holding, holding.prompt_tokens - 1)
        self.cache.enter(holding, self.cache.hit_rows(holding, hit), hit, tokens, 7)
        self.cache.register(holding, tokens)
        self.cache.new_step()
        self.check()
        return hit

    def go_on(self, holding: Holding, settled: int, tokens: int) -> None:
        """Compute up to so many tokens."""
        self.cache.retire(holding, settled)
        self.cache.take(holding, tokens, 7)
        self.cache.register(holding, tokens)
        self.cache.new_step()
        self.check()

    def run(self, name: str, tokens: int, shared: int = 0, *, stops: Iterable[int] = ()) -> int:
        """Run a request from start to end, in steps that end at `stops`; return what it hit."""
        holding = self.request(name, tokens, shared)
        hit = self.cache.match(holding, tokens - 1)
        ends = [stop for stop in stops if stop > hit] + [tokens]
        self.enter(holding, ends[0])
        for settled, end in pairwise(ends):
            self.go_on(holding, settled, end)
        self.release(holding)
        return hit

    def release(self, holding: Holding) -> None:
        """Let a request end."""
        self.cache.release(holding)
        self.check()

    def check(self) -> None:
        """Raise AssertionError unless blocks add up."""
        self.cache.check_integrity(self.holdings)
