"""Ids of blocks tell what prompts share: as much as their spans do, and no more."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_hits import named_hits, unlimited_hits

from workloads.agent import AgentWorkload
from workloads.distributions import Constant, Uniform
from workloads.errors import WorkloadError
from workloads.export.blocks import BlockNames, spans_of
from workloads.span import Span, total_tokens
from workloads.traces.request import BlockIds, TraceRequest


def prompt(row: int, *spans: Span, **more: Any) -> TraceRequest:
    """Return a request with these spans as its prompt."""
    return TraceRequest(row, total_tokens(spans), 1, content=spans, **more)


def blocks(row: int, tokens: int, *ids: int, size: int = 4, scope: str | None = None) -> TraceRequest:
    """Return a request whose prompt has these ids."""
    return TraceRequest(row, tokens, 1, content=BlockIds(ids, size, scope))


spans = st.lists(
    st.builds(Span, st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=5
).map(tuple)


@given(st.lists(spans, min_size=1, max_size=8), st.integers(1, 7))
def test_hits_are_those_of_the_prompts_token_by_token(prompts: list[tuple[Span, ...]], size: int) -> None:
    """However the same tokens are cut into spans, and whatever the block size."""
    requests = [prompt(row, *content) for row, content in enumerate(prompts)]
    assert named_hits(requests, size) == unlimited_hits(requests, size)


def test_a_session_shares_its_prefix_and_its_past() -> None:
    """A drawn session, with lengths that no block size divides."""
    workload = AgentWorkload(1000, Constant(5), Uniform(50, 700), Constant(33))
    rng = np.random.default_rng(1)
    requests = [
        prompt(0, *one.spans) for name in ("one", "two", "three") for one in workload.session(name, rng).prompts()
    ]
    for size in (16, 64, 512):
        assert named_hits(requests, size) == unlimited_hits(requests, size)


def test_ids_are_numbered_as_they_are_met() -> None:
    """From the first one asked for, and the same ones for the same front."""
    names = BlockNames(4, 1)
    assert names.of(blocks(1, 10, 70, 71, 75)).ids == [1, 2, 3]
    assert names.of(blocks(2, 11, 70, 71, 72)) == ([1, 2, 4], 8)
    assert names.of(blocks(3, 8, 71, 70)).ids == [2, 1]  # ids mean what the trace says they mean


def test_ids_of_two_scopes_have_nothing_in_common() -> None:
    """Two WEKA files may both call different text 1."""
    assert named_hits([blocks(1, 8, 1, 2, scope="a"), blocks(2, 8, 1, 2, scope="b")], 4) == [0, 0]


def test_a_tail_without_an_id_is_a_block_of_its_own() -> None:
    """Where the last block must have an id; where it must not, it has none."""
    twice = [blocks(1, 10, 1, 2), blocks(2, 10, 1, 2)]
    assert [len(BlockNames(4).of(one).ids) for one in twice] == [3, 3]
    assert named_hits(twice, 4) == [0, 8]
    assert [len(BlockNames(4, partial=False).of(one).ids) for one in twice] == [2, 2]


@pytest.mark.parametrize(("size", "hits"), [(2, [0, 8]), (8, [0, 8]), (3, [0, 6]), (16, [0, 0])])
def test_blocks_of_another_size_share_what_whole_ones_hold(size: int, hits: list[int]) -> None:
    """Two prompts agree in 8 tokens, two blocks of 4."""
    assert named_hits([blocks(1, 12, 1, 2, 3), blocks(2, 12, 1, 2, 4)], size) == hits


def test_what_nobody_knows_is_shared_with_nobody() -> None:
    """Lengths alone; and a prompt longer than its content says."""
    assert named_hits([TraceRequest(1, 8, 1), TraceRequest(2, 8, 1)], 4) == [0, 0]
    short = [TraceRequest(row, 12, 1, content=(Span("a", 0, 5),)) for row in (1, 2)]
    assert named_hits(short, 4) == [0, 4]
    assert total_tokens(spans_of(short[0])) == 12


def test_a_front_that_all_share_goes_before_what_ids_tell() -> None:
    """Tools and system prompt of two sessions."""
    two = [blocks(row, 12, 1, 2, 3, scope=f"{row}")._replace(shared_tokens=9) for row in (1, 2)]
    assert named_hits(two, 4) == [0, 8]


@pytest.mark.parametrize(("size", "tokens", "said"), [(0, 8, "at least 1"), (1, 10**9, "more than 16,777,216")])
def test_impossible_blocks_are_refused(size: int, tokens: int, said: str) -> None:
    """Before memory is filled with them."""
    with pytest.raises(WorkloadError, match=said):
        BlockNames(size).of(TraceRequest(1, tokens, 1))
