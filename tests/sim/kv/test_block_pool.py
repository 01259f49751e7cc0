"""The block pool hands out, hits and evicts what the rules say; what any history leaves, all pools agree on."""

import pytest
from four_pools import FourPools, Prompt

from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.kv.extent import Table
from workloads.span import Span


def line(name: str, blocks: int) -> Prompt:
    """Return a prefix of a line; lines share nothing, prefixes of one share all they can."""
    return (Span(name, 0, blocks),)


def test_one_conversation_hit_five_thousand_times_stays_one_extent() -> None:
    """Hit and released for ever: the queue stays small and the next block is the right one."""
    pool, content = BlockPool(40), ContentTree(1).content(line("a", 30))
    table = Table()
    pool.take(table, 30)
    pool.register(table, content, 30)
    for cut in range(5000):
        pool.release(table)
        found, free = pool.match(content, 1 + cut % 30)
        assert found == free == 1 + cut % 30
        pool.use(table, content, found)
    ((chain, _),) = content
    assert len(chain.copies) <= 2
    pool.check_integrity([table])


def test_more_blocks_than_anybody_writes_down() -> None:
    """A thousand blocks in one go, and back."""
    pools = FourPools(1201)
    held = pools.admit(line("a", 1200))
    assert held is not None
    blocks = held.blocks
    pools.release(held)
    other = pools.admit(line("b", 400))
    assert other is not None
    assert other.blocks == blocks[:799:-1]


@pytest.mark.parametrize("first_goes_first", [True, False])
def test_twins_are_evicted_in_either_order(*, first_goes_first: bool) -> None:
    """The first registered of those left is hit; content is gone with its last block only."""
    pools = FourPools(7)
    prompt = line("a", 2)
    twins = [pools.admit(prompt, limit=0) for _ in range(2)]
    first, second = (list(held.blocks) for held in twins if held)
    for held in twins if first_goes_first else twins[::-1]:
        assert held is not None
        pools.release(held)
    other = pools.admit(line("b", 2))  # never used ones
    assert other is not None
    for taken, left in ((0, first), (2, second if first_goes_first else first)):
        pools.take(other, taken)
        assert pools.lookup(prompt) == left
    pools.take(other, 2, taker=3)
    assert pools.lookup(prompt) == []
    assert pools.lost(prompt, 0, 2) == (2, 3)
    assert pools.counted.num_cached == 2


def test_a_third_twin_takes_over() -> None:
    """Three blocks of one content, freed in the middle first."""
    pools = FourPools(4)
    prompt = line("a", 1)
    first, middle, last = (pools.admit(prompt, limit=0) for _ in range(3))
    assert first
    assert middle
    assert last
    blocks = [first.blocks[0], middle.blocks[0], last.blocks[0]]
    for held in (middle, first, last):
        pools.release(held)
    hits = []
    for _ in range(3):
        hits += pools.lookup(prompt)
        pools.admit((), beyond=1)
    assert hits == [blocks[0], blocks[0], blocks[2]]


def test_a_prefix_outlives_its_tail() -> None:
    """Rule 22: of a released table the last cached block is evicted first, after all that hold nothing."""
    pools = FourPools(6)
    held = pools.admit(line("a", 3), beyond=2)
    assert held is not None
    assert held.blocks == [1, 2, 3, 4, 5]
    pools.release(held)
    assert pools.drain() == [5, 4, 3, 2, 1]


def test_a_prefix_that_is_freed_in_parts_outlives_each_of_them() -> None:
    """Two share a prefix; whoever goes first leaves it behind, and its own tail is older than the other's."""
    pools = FourPools(6)
    first = pools.admit((*line("shared", 1), *line("one", 2)))
    second = pools.admit((*line("shared", 1), *line("other", 2)))
    assert first
    assert second
    pools.release(second)
    pools.release(first)
    assert pools.drain() == [5, 4, 3, 2, 1]


def test_a_free_block_is_a_hit_until_it_is_handed_out() -> None:
    """Rule 23: usage 0 with everything cached."""
    pools = FourPools(5)
    held = pools.admit(line("a", 4))
    assert held is not None
    pools.release(held)
    assert pools.counted.usage == pools.numbered.usage == 0.0
    assert pools.counted.num_cached == pools.numbered.num_cached == 4
    again = pools.admit(line("a", 4))
    assert again is not None
    assert again.blocks == [1, 2, 3, 4]
    assert pools.counted.usage == pools.numbered.usage == 1.0


def test_without_caching_the_pool_is_a_stack() -> None:
    """Nothing is ever found, and the last block freed is the first handed out."""
    pools = FourPools(5, caching=False)
    held = pools.admit(line("a", 3))
    assert held is not None
    pools.release(held)
    assert pools.lookup(line("a", 3)) == []
    assert pools.drain() == [3, 2, 1, 4]


def test_taking_nothing_takes_nothing() -> None:
    """An empty request for blocks leaves freed ones where they are."""
    pools = FourPools(3)
    held = pools.admit((), beyond=2)
    assert held is not None
    pools.release(held)
    assert pools.admit(()) is not None
    assert pools.drain() == [2, 1]


def test_lost_content_names_who_took_it() -> None:
    """Content evicted, then by whom first; what was never cached, or is still there in a twin, is not lost."""
    pools = FourPools(4)
    prompt = line("a", 2)
    both, twin = pools.admit(prompt), pools.admit(line("a", 1), limit=0)
    assert both
    assert twin
    pools.release(both)
    assert pools.lost(prompt, 0, 2) == (0, -1)
    other = pools.admit((), beyond=2, taker=7)
    assert other is not None
    assert other.blocks == [2, 1]
    assert pools.lost(prompt, 0, 2) == (1, 7)
    assert pools.lost(prompt, 0, 1) == (0, -1)
    assert pools.lost(line("a", 9), 1, 9) == (1, 7)
    assert pools.lost(prompt, 1, 1) == (0, -1)


def test_each_of_a_round_of_takers_is_remembered_by_what_it_took() -> None:
    """One block each, in turn: the prompt's last block goes first, to the first of them."""
    pools = FourPools(7)
    prompt = line("a", 4)
    held, group = pools.admit(prompt), [pools.admit(()) for _ in range(5)]
    assert held is not None
    pools.release(held)
    pools.take_each([(one, 10 + index) for index, one in enumerate(group) if one])
    assert [pools.lost(prompt, block, block + 1) for block in range(4)] == [(0, -1), (1, 14), (1, 13), (1, 12)]


def test_lost_content_that_is_computed_again_is_not_lost() -> None:
    """A part of it comes back; who took the rest is still known."""
    pools = FourPools(5)
    prompt = line("a", 4)
    held = pools.admit(prompt)
    assert held is not None
    pools.release(held)
    other = pools.admit((), beyond=4, taker=5)
    assert other is not None
    pools.release(other)
    part = pools.admit(line("a", 2))
    assert part is not None
    assert pools.lost(prompt, 0, 4) == (2, 5)
    assert pools.lost(prompt, 0, 2) == (0, -1)
