"""The block pool hands out, hits and evicts what a slow pool written from the rules does, block by block."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_pool import SlowPool

from sim.kv.block_pool import BlockPool


class Twins:
    """Our pool and the slow one, driven as a scheduler does and compared after each operation."""

    def __init__(self, num_gpu_blocks: int, *, caching: bool = True) -> None:
        self.ours = BlockPool(num_gpu_blocks, enable_prefix_caching=caching)
        self.slow = SlowPool(num_gpu_blocks, caching=caching)

    def admit(self, nodes: list[int], beyond: int = 0) -> list[int] | None:
        """Hit what is cached, take the rest and `beyond` more, register; None where it does not fit."""
        wanted = np.array(nodes, np.int64)
        hit = self.ours.lookup(wanted)
        assert hit.tolist() == self.slow.lookup(nodes)
        revived = self.ours.num_in_queue(hit)
        assert revived == sum(self.slow.references[block] == 0 for block in hit.tolist())
        count = len(nodes) - len(hit) + beyond
        if count + revived > self.ours.num_free:
            return None
        self.ours.touch(hit)
        self.slow.touch(hit.tolist())
        self.check()
        table = hit.tolist() + self.take(count)
        self.register(table[len(hit) : len(nodes)], nodes[len(hit) :])
        return table

    def take(self, count: int) -> list[int]:
        """Hand out from both."""
        taken = self.ours.take(count)
        assert taken == self.slow.take(count)
        self.check()
        return taken

    def register(self, blocks: list[int], nodes: list[int]) -> None:
        """Give content to blocks in both."""
        if nodes:
            self.ours.register(np.array(blocks, np.int64), np.array(nodes, np.int64))
        for block, node in zip(blocks, nodes, strict=True):
            self.slow.register(block, node)
        self.check()

    def release(self, table: list[int]) -> None:
        """Give a table back to both."""
        self.ours.release(np.array(table, np.int64))
        self.slow.release(table)
        self.check()

    def check(self) -> None:
        """Compare what can be seen, and look inside ours."""
        self.ours.check_integrity()
        assert self.ours.num_free == self.slow.num_free
        assert self.ours.num_cached == self.slow.num_cached
        assert self.ours.num_evicted == self.slow.evicted
        in_use = self.ours.usable_blocks - self.slow.num_free
        assert self.ours.usage == pytest.approx(in_use / self.ours.usable_blocks if self.ours.usable_blocks else 0.0)

    def drain(self) -> None:
        """Take every free block: the whole order of the queue is compared."""
        self.take(self.ours.num_free)


def chain(line: int, length: int) -> list[int]:
    """Return the nodes of a prefix of a line; lines share nothing, prefixes of one share all they can."""
    return [1 + 100 * line + i for i in range(length)]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(0, 3), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("twin"), st.integers(0, 3), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("release"), st.integers(0, 99), st.just(0), st.just(0)),
        st.tuples(st.just("grow"), st.integers(0, 99), st.integers(1, 3), st.just(0)),
    ),
    max_size=60,
)


@given(num_gpu_blocks=st.integers(2, 40), caching=st.booleans(), moves=operations)
def test_any_history_is_that_of_the_slow_pool(
    num_gpu_blocks: int, *, caching: bool, moves: list[tuple[str, int, int, int]]
) -> None:
    """Admissions with hits, computed twins of cached content, growth, releases in any order."""
    pools = Twins(num_gpu_blocks, caching=caching)
    tables: list[list[int]] = []
    for move, which, length, beyond in moves:
        if move == "admit":
            tables.append(pools.admit(chain(which, length), beyond) or [])
        elif move == "twin" and length <= pools.ours.num_free:
            tables.append(pools.take(length))
            pools.register(tables[-1], chain(which, length))
        elif move == "grow" and tables and length <= pools.ours.num_free:
            tables[which % len(tables)] += pools.take(length)
        elif move == "release" and tables:
            pools.release(tables.pop(which % len(tables)))
    for table in tables:
        pools.release(table)
    pools.drain()


@pytest.mark.parametrize("seed", range(4))
def test_long_histories_compact_the_queue(seed: int) -> None:
    """Thousands of revivals leave stale entries behind; order and counts survive each compaction."""
    rng = random.Random(seed)
    pools = Twins(200)
    tables: list[list[int]] = []
    for _ in range(400):
        table = pools.admit(chain(rng.randint(0, 6), rng.randint(5, 60)), rng.randint(0, 2))
        tables += [table] if table else []
        while tables and (table is None or len(tables) > 3 or rng.random() < 0.5):
            pools.release(tables.pop(rng.randrange(len(tables))))
            table = []
    assert pools.slow.evicted > 1000
    for table in tables:
        pools.release(table)
    pools.drain()


def test_stale_entries_do_not_pile_up() -> None:
    """One conversation hit and released 5,000 times: the queue stays small and the next block is the right one."""
    pools = Twins(40)
    table = pools.admit(chain(0, 30))
    for _ in range(5000):
        assert table
        pools.ours.release(np.array(table, np.int64))
        pools.slow.release(table)
        hit = pools.ours.lookup(np.array(chain(0, 30), np.int64))
        pools.ours.touch(hit)
        pools.slow.touch(hit.tolist())
        table = hit.tolist()
    pools.check()
    pools.release(table)
    assert len(pools.ours._queue) <= 4096
    pools.drain()


def test_more_blocks_than_the_queue_first_holds() -> None:
    """The queue grows when more blocks wait than it has room for."""
    pools = Twins(3001)
    table = pools.admit(chain(0, 3000))
    assert table
    pools.release(table)
    assert pools.take(1000) == table[:1999:-1]
    pools.drain()


@pytest.mark.parametrize("first_goes_first", [True, False])
def test_twins_are_evicted_in_either_order(*, first_goes_first: bool) -> None:
    """The first registered of those left is hit; content is gone with its last block only."""
    pools = Twins(7)
    first, second = pools.take(2), pools.take(2)
    pools.register(first, chain(0, 2))
    pools.register(second, chain(0, 2))
    for table in (first, second) if first_goes_first else (second, first):
        pools.release(table)
    nodes = np.array(chain(0, 2), np.int64)
    pools.take(2)  # never used ones
    for taken, left in ((0, first), (2, second if first_goes_first else first)):
        pools.take(taken)
        assert pools.ours.lookup(nodes).tolist() == left == pools.slow.lookup(chain(0, 2))
    pools.take(2)
    assert pools.ours.lookup(nodes).tolist() == []
    assert pools.ours.num_cached == 0


def test_a_third_twin_takes_over() -> None:
    """Three blocks of one content, freed in the middle first."""
    pools = Twins(4)
    blocks = pools.take(3)
    for block in blocks:
        pools.register([block], chain(0, 1))
    for block in (blocks[1], blocks[0], blocks[2]):
        pools.release([block])
    hits = []
    for _ in range(3):
        hits += pools.ours.lookup(np.array(chain(0, 1), np.int64)).tolist()
        pools.take(1)
    assert hits == [blocks[0], blocks[0], blocks[2]]


def test_a_prefix_outlives_its_tail() -> None:
    """Rule 22: of a released table the last cached block is evicted first, after all that hold nothing."""
    pools = Twins(6)
    table = pools.admit(chain(0, 3), beyond=2)
    assert table == [1, 2, 3, 4, 5]
    pools.release(table)
    assert pools.take(5) == [5, 4, 3, 2, 1]


def test_a_free_block_is_a_hit_until_it_is_handed_out() -> None:
    """Rule 23: usage 0 with everything cached."""
    pools = Twins(5)
    pools.release(pools.admit(chain(0, 4)) or [])
    assert pools.ours.usage == 0.0
    assert pools.ours.num_cached == 4
    assert pools.admit(chain(0, 4)) == [1, 2, 3, 4]
    assert pools.ours.usage == 1.0


def test_without_caching_the_pool_is_a_stack() -> None:
    """Nothing is ever found, and the last block freed is the first handed out."""
    pools = Twins(5, caching=False)
    pools.release(pools.admit(chain(0, 3)) or [])
    assert pools.ours.lookup(np.array(chain(0, 3), np.int64)).tolist() == []
    assert pools.take(4) == [3, 2, 1, 4]


def test_taking_nothing_takes_nothing() -> None:
    """An empty request for blocks leaves freed ones where they are."""
    pools = Twins(3)
    pools.release(pools.take(2))
    assert pools.take(0) == []
    pools.drain()


def test_lost_content_names_who_took_it() -> None:
    """Content evicted, then by whom first; what was never cached, or is still there in a twin, is not lost."""
    pool = BlockPool(4)
    nodes = np.array([1, 2], np.int64)
    pool.register(np.array(pool.take(2), np.int64), nodes)
    pool.register(np.array(pool.take(1), np.int64), nodes[:1])
    pool.release(np.array([1, 2], np.int64))
    assert pool.lost(nodes) == (0, -1)
    assert pool.take(2, taker=7) == [2, 1]
    assert pool.lost(nodes) == (1, 7)
    assert pool.lost(np.array([2, 5000], np.int64)) == (1, 7)
    assert pool.lost(nodes[:0]) == (0, -1)
