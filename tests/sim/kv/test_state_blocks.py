"""Recurrent states, worked out by hand."""

from groups import Small, full, state

# Blocks of 4 tokens. A chunk that ends at 8 leaves its state in place 1, and what follows goes on in another block:
#     after 8 tokens    | 0 | A |                 A is cached: the state of exactly 8 tokens
#     after 10          | 0 | A | B |             B runs; A is given back when the step from 8 to 10 is settled
#     after 12, 13      | 0 | 0 | B | C |         B is cached in its turn


def test_a_sequence_holds_its_running_state_and_for_a_step_the_one_before() -> None:
    """2 blocks while it crosses into another block, else 1."""
    small = Small([state(4)], 10)
    request = small.request("a", 20)
    small.enter(request, 8)
    assert [block > 0 for block in request.tables[0].rows[0]] == [False, True]
    small.go_on(request, 8, 10)
    assert 10 - small.pool.num_free == 2
    small.go_on(request, 10, 11)
    assert 10 - small.pool.num_free == 1
    assert small.pool.num_cached == 1


def test_a_state_is_hit_only_at_the_very_length_it_was_kept_for() -> None:
    """A chunk ended at 8 and one at 16: 8 tokens in common hit, 12 give 8, and 20 give 16."""
    for shared, hit in ((8, 8), (12, 8), (20, 16)):
        small = Small([full(4), state(4)], 100)
        small.run("a", 30, shared=shared, stops=(8, 16))
        assert small.run("b", 30, shared=shared) == hit


def test_a_hit_is_shared_and_its_block_never_written() -> None:
    """Two requests go on from one state, each in a block of its own; both give it back a step later."""
    small = Small([state(4)], 10)
    small.run("a", 9, shared=8, stops=(8,))
    one, other = small.request("b", 12, shared=8), small.request("c", 12, shared=8)
    assert [small.enter(request, 10) for request in (one, other)] == [8, 8]
    assert one.tables[0].rows[0][1] == other.tables[0].rows[0][1]
    assert 10 - small.pool.num_free == 3
    small.go_on(one, 10, 11)
    small.go_on(other, 10, 11)
    assert 10 - small.pool.num_free == 2


def test_draft_tokens_take_a_block_each_that_moves_along() -> None:
    """With 2 draft tokens 3 blocks in steady state: 4 are what mode "align" reserves."""
    small = Small([state(4, blocks=4)], 10)
    request = small.request("a", 30)
    assert small.cache.entry_blocks([[[]]], 30, capped=True) == 3
    small.enter(request, 8)
    held = [10 - small.pool.num_free]
    for settled in range(8, 29):
        small.go_on(request, settled, settled + 1)
        held.append(10 - small.pool.num_free)
    assert held[0] == 3
    assert set(held) == {3, 4}
    assert held.count(4) == 6  # tokens 9, 13, 17, 21, 25 and 29 begin a block: for one step there are two states
    small.release(request)
    assert small.pool.num_free == 10


def test_without_caching_a_sequence_keeps_its_blocks_from_first_to_last() -> None:
    """1 and a draft token's, however long it gets."""
    small = Small([state(4, blocks=2)], 10, caching=False)
    request = small.request("a", 30)
    small.enter(request, 8)
    for settled in (8, 16, 24):
        small.go_on(request, settled, settled + 6)
        assert 10 - small.pool.num_free == 2
    assert small.cache.most_blocks(10**6) == 2


def test_a_state_cannot_be_hit_in_the_step_that_computes_it() -> None:
    """A full group's block can; who hits a state waits a step."""
    small = Small([full(4), state(4)], 100)
    request = small.request("a", 9)
    small.cache.enter(request, small.cache.hit_rows(request, 0), 0, 8, 7)
    small.cache.register(request, 8)
    other = small.request("a", 9)
    assert small.cache.match(other, 8) == 8
    assert small.cache.must_wait(other, 8)
    small.cache.new_step()
    assert not small.cache.must_wait(other, 8)


def test_prompts_are_cut_where_states_are_kept() -> None:
    """Chunks end with a block, the last one but the rest at the last length a resend hits, others at a junction."""
    states = Small([state(4)], 10).cache.states[0]

    def cut(start: int, count: int, prompt: int = 30, most: int = 64, junction: int = 0) -> int:
        return states.chunk(start, count, (prompt, prompt, most), junction)

    assert cut(0, 10) == 8
    assert cut(8, 22) == 20  # to 28; then the last two
    assert cut(28, 2) == 2
    assert cut(0, 32, prompt=32) == 28  # a resend of 32 tokens computes one of them again
    assert cut(0, 3) == 0  # not worth a chunk: wait for a step with more budget
    assert cut(0, 3, most=3) == 3  # there never is more
    assert cut(3, 3, most=3) == 1  # up to the end of the block
    assert cut(0, 30, junction=13) == 12
    assert cut(30, 1) == 1  # a decode


def test_a_warm_prefix_is_hit_at_once() -> None:
    """As if others had gone on from it before: with full attention to its last block, and the state there."""
    small = Small([full(4), state(4)], 100, interval=0)
    small.cache.warm(small.content("", 18, shared=18))
    small.check()
    assert small.run("b", 30, shared=18) == 16


def test_a_prefix_is_warm_as_far_as_the_pool_reaches() -> None:
    """Of 5 blocks one is for the state, so that 16 tokens fit."""
    small = Small([full(4), state(4)], 5, interval=0)
    small.cache.warm(small.content("", 32, shared=32))
    assert small.cache.longest_hit(small.request("a", 32, shared=32).prefix, 31) == (16, 16)
    assert small.pool.num_cached == 5
