"""Sliding windows and local chunks, worked out by hand."""

import pytest
from groups import Small, chunk, full, window

# One group of windows of 6 tokens, blocks of 4. The token after n computed ones looks at itself and the 5 before it,
# so n - 5 are skipped, and (n - 5) // 4 blocks have slid out:
#     n        4   8   9  12  13  16  17
#     skipped  0   3   4   7   8  11  12
#     blocks   0   0   1   1   2   2   3


def test_blocks_that_slid_out_are_given_back_while_the_request_runs() -> None:
    """Chunks of 4 tokens hold at most 3 blocks of the 5 a full group would hold."""
    small = Small([window(4, 6)], 10)
    request = small.request("a", 20)
    small.enter(request, 4)
    held = []
    for settled in (4, 8, 12, 16):
        small.go_on(request, settled, settled + 4)
        held.append(10 - small.pool.num_free)
    assert held == [2, 3, 3, 3]  # of 8 tokens 2; of 12, 16 and 20 none, one and two have slid out
    assert request.tables[0].rows == [[0, 0, *request.tables[0].rows[0][2:]]]


def test_nothing_is_given_back_that_a_step_under_way_still_reads() -> None:
    """With 4 tokens in flight after 16, only 12 are settled: one block has slid out, not two."""
    small = Small([window(4, 6)], 10)
    request = small.request("a", 24)
    small.enter(request, 16)
    small.go_on(request, 12, 20)
    assert request.tables[0].retired == 1


def test_what_slid_out_can_be_hit_until_it_is_handed_out_again() -> None:
    """A prompt of 8 shared tokens needs blocks 0 and 1 (skipped 3 // 4 = 0); both slid out, and are there."""
    small = Small([window(4, 6)], 10)
    request = small.request("a", 24, shared=8)
    small.enter(request, 8)
    for settled in (8, 12, 16, 20):
        small.go_on(request, settled, settled + 4)
    assert request.tables[0].rows[0][:2] == [0, 0]
    assert small.enter(small.request("b", 12, shared=8), 12) == 8
    assert (
        small.pool.num_free == 4
    )  # 3 never used, and what slid out of the first request's window but not the second's
    small.run("c", 16)
    assert small.pool.num_evicted == 1


def test_only_the_last_window_of_a_prefix_is_needed() -> None:
    """After 20 tokens blocks 3 and 4 (skipped 15 // 4 = 3): the first three may be gone."""
    small = Small([window(4, 6)], 5)
    small.run("a", 21, stops=(20,))
    rows = small.cache.hit_rows(small.request("a", 21), 20)
    assert [block > 0 for block in rows[0][0]] == [False, False, False, True, True]
    # Two requests of one block take block 2, freed without content (the 21st token's), and 0, the oldest of the rest.
    small.enter(small.request("x", 1), 1)
    small.enter(small.request("y", 1), 1)
    assert small.run("a", 21) == 20


def test_a_hit_must_hold_in_every_group() -> None:
    """Full attention has 20 tokens in common, the window is kept nowhere before 28: nothing hits, nobody took it."""
    small = Small([full(4), window(4, 6)], 100, interval=0)
    small.run("a", 30, shared=20)
    request = small.request("b", 30, shared=20)
    assert small.cache.match(request, 29) == 0
    assert request.junction == 20  # up to here all groups will have it from now on
    assert small.cache.lost(request, 0) == (5, -1)


def test_who_took_a_lost_block_is_remembered() -> None:
    """Of 4 blocks two hold 8 tokens; who needs 3 takes the second of them."""
    small = Small([window(4, 6)], 4)
    small.run("a", 9)
    small.enter(small.request("b", 12), 12)
    request = small.request("a", 9)
    assert small.cache.match(request, 8) == 4
    assert small.cache.lost(request, 4) == (1, 7)


def test_hits_are_multiples_of_all_block_sizes() -> None:
    """Blocks of 8 and 4 tokens: 20 shared tokens give 16."""
    small = Small([full(8), window(4, 6)], 100)
    small.run("a", 30, shared=20)
    assert small.run("b", 30, shared=20) == 16


def test_by_default_a_window_is_kept_where_the_same_prompt_resumes() -> None:
    """Of 30 tokens that is 28; of 20 the same tokens alone share, nothing is kept for windows at first."""
    small = Small([full(4), window(4, 6)], 100, interval=0)
    assert small.run("a", 30, shared=20) == 0
    assert small.run("a", 30, shared=20) == 28
    assert small.run("b", 30, shared=20) == 0  # sees that full attention has 20, and keeps the window there
    assert small.run("c", 30, shared=20) == 20


@pytest.mark.parametrize(("interval", "hit"), [(0, 0), (8, 20), (12, 12), (16, 16), (None, 20)])
def test_an_interval_keeps_checkpoints(interval: int | None, hit: int) -> None:
    """A prefix of 20 tokens that another prompt goes on from differently: a window takes 2 blocks, so 8 keeps all."""
    small = Small([full(4), window(4, 6)], 100, interval=interval)
    small.run("a", 30, shared=20)
    assert small.run("b", 30, shared=20) == hit


def test_the_reserve_of_a_window_counts_on_recycling() -> None:
    """Of 1,000 tokens ceil((6 - 1 + 16) / 4) + 1 = 7 blocks, since 16 tokens are in flight; of 12 tokens 3."""
    small = Small([window(4, 6)], 10)
    rows = [[[]]]
    assert small.cache.entry_blocks(rows, 1000, capped=True) == 7
    assert small.cache.entry_blocks(rows, 1000, capped=False) == 250
    assert small.cache.entry_blocks(rows, 12, capped=True) == 3
    assert small.cache.most_blocks(1000) == 7


def test_a_chunk_keeps_its_own_stretch() -> None:
    """Chunks of 8 tokens, blocks of 4: with 16 settled all four blocks are of earlier chunks, with 15 two are."""
    small = Small([full(4), chunk(4, 8)], 10)
    request = small.request("a", 20)
    small.enter(request, 16)
    small.cache.retire(request, 15)
    assert request.tables[1].retired == 2
    small.cache.retire(request, 16)
    assert request.tables[1].retired == 4
    assert small.pool.num_free == 6


def test_a_prefix_that_ends_with_a_chunk_needs_no_block_of_it() -> None:
    """16 of 17 tokens hit without any block; of 21 the fifth block must be there."""
    small = Small([full(4), chunk(4, 8)], 100)
    small.run("a", 17)
    request = small.request("a", 17)
    assert small.cache.match(request, 16) == 16
    assert small.cache.hit_rows(request, 16)[1] == [[0, 0, 0, 0]]
