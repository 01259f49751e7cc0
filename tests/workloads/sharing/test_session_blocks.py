"""Which ids each session had: the same as sets tell, in a fraction of the memory."""

import tracemalloc
from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.sharing.known_blocks import KnownBlocks
from workloads.sharing.session_blocks import SessionBlocks
from workloads.sharing.unlimited import UnlimitedCache
from workloads.traces.request import BlockIds, TraceRequest

SPREAD = (1, 700, 50_000, 10**7, 10**15)  # between two ids


def leading(ids: Sequence[Hashable], known: set[Hashable]) -> int:
    """Return how many of the first ids are in a set, and put all into it."""
    run = next((place for place, one in enumerate(ids) if one not in known), len(ids))
    known.update(ids)
    return run


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 9), min_size=1, max_size=6)), max_size=20))
@pytest.mark.parametrize("spread", SPREAD)
def test_sessions_know_what_sets_of_their_own_would(spread: int, prompts: list[tuple[str, list[int]]]) -> None:
    """Ids near and far apart; a block may be of any sessions."""
    blocks, sets = SessionBlocks(), {name: set[Hashable]() for name in "abc"}
    for session, numbers in prompts:
        ids = sorted(number * spread for number in numbers)  # small ones lead, as ids of a prompt ascend
        assert blocks.add(session, ids) == leading(ids, sets[session])


@given(st.lists(st.lists(st.integers(-2, 9), min_size=1, max_size=6), max_size=20))
@pytest.mark.parametrize("spread", SPREAD)
def test_known_blocks_are_a_set(spread: int, prompts: list[list[int]]) -> None:
    """Also where ids that were few and far apart become many."""
    blocks, known = KnownBlocks(), set[Hashable]()
    for numbers in prompts:
        ids = [number * spread for number in numbers]
        assert blocks.add(ids) == leading(ids, known)
        assert blocks.count == len(known)


@pytest.mark.parametrize("scope", [None, "own"])
def test_many_sessions_of_one_trace_stay_small(scope: str | None) -> None:
    """As many bytes a session as the trace has blocks were gigabytes for a day of chats."""
    cache = UnlimitedCache()
    tracemalloc.start()
    try:
        for number in range(2000):
            ids = list(range(number * 50, number * 50 + 50))
            name = f"session {number}"
            content = BlockIds(ids, 16, None if scope is None else name)
            assert cache.add(TraceRequest(number + 1, 800, 5, session=name, content=content)) == (0, 0)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 40 * 2**20
    assert cache.distinct_blocks == 100_000
