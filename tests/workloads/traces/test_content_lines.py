"""Prompts on lines of content: what two turns share, where an answer stands, and what a compaction keeps."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.span import Span, total_tokens
from workloads.traces.content_lines import Laid, Lines, cut
from workloads.traces.request import BlockIds, TraceRequest

BLOCK = 64


def request(prompt: int, output: int, ids: Sequence[int], session: str = "s", **more: Any) -> TraceRequest:
    """Return a request with ids of full blocks."""
    return TraceRequest(
        1, prompt, output, session=session, content=BlockIds(ids, BLOCK, more.pop("scope", "s")), **more
    )


def common(one: tuple[Span, ...], other: tuple[Span, ...]) -> int:
    """Return how many tokens two prompts begin with in common."""
    points = [[(span.content, span.start + n) for span in spans for n in range(span.length)] for spans in (one, other)]
    return next((n for n, (a, b) in enumerate(zip(*points, strict=False)) if a != b), min(map(len, points)))


def laid(*requests: TraceRequest, **rules: Any) -> list[Laid]:
    """Return the requests as laid one after another."""
    lines = Lines(**rules)
    return [lines.lay(one, one.session or "") for one in requests]


def test_an_answer_stands_in_its_place_in_the_next_prompt() -> None:
    """A prompt that extends the last one by more than its answer holds both, and is one span with them."""
    first, second = laid(request(200, 30, [1, 2, 3]), request(300, 10, [1, 2, 3, 4]))
    assert common((*first.spans, first.answer), second.spans) == 230
    assert len(second.spans) == 1
    assert total_tokens(second.spans) == 300


def test_a_prompt_that_grows_by_less_than_the_answer_has_it_taken_out() -> None:
    """Thinking is stripped; asked otherwise, as much of the answer as there is room for stays, or none ever does."""
    turns = request(200, 50, [1, 2, 3]), request(230, 10, [1, 2, 3])
    first, second = laid(*turns)
    assert common((*first.spans, first.answer), second.spans) == 200
    first, second = laid(*turns, outputs_reusable="always")
    assert common((*first.spans, first.answer), second.spans) == 230
    first, second = laid(request(200, 30, [1, 2, 3]), request(300, 10, [1, 2, 3, 4]), outputs_reusable="never")
    assert common((*first.spans, first.answer), second.spans) == 200


def test_a_compacted_prompt_keeps_what_the_ids_say() -> None:
    """And what follows is fresh, the answer too."""
    first, second, third = laid(
        request(640, 30, range(10)), request(256, 30, [0, 1, 50, 51]), request(320, 5, [0, 1, 50, 51, 52])
    )
    assert common(first.spans, second.spans) == 128
    assert common((*second.spans, second.answer), third.spans) == 286


def test_two_prompts_that_branch_off_one_answer_both_hold_it() -> None:
    """They share the answer, and nothing after it but what ids say."""
    first, one, other = laid(
        request(128, 64, [1, 2]), request(320, 9, [1, 2, 3, 4, 5]), request(320, 9, [1, 2, 3, 6, 7])
    )
    assert common((*first.spans, first.answer), one.spans) == 192
    assert common(one.spans, other.spans) == 192
    first, one, other = laid(
        request(128, 64, [1, 2]), request(320, 9, [1, 2, 3, 4, 5]), request(320, 9, [1, 2, 8, 6, 7])
    )
    assert common(one.spans, other.spans) == 192  # the answer, though the ids of the block around it differ


def test_ids_count_within_their_scope() -> None:
    """Two files number alike and share nothing; sessions of one scope share what ids say, and not an answer."""
    one, other = laid(request(200, 9, [1, 2, 3]), request(200, 9, [1, 2, 3], "t", scope="t"))
    assert common(one.spans, other.spans) == 0
    one, other = laid(request(200, 9, [1, 2, 3]), request(400, 9, [1, 2, 3, 4, 5, 6], "t"))
    assert common((*one.spans, one.answer), other.spans) == 192


def test_what_a_trace_says_is_common_is_one_front() -> None:
    """Of sessions one, of subagents another; as long as each says."""
    one, other, agent = laid(
        request(200, 9, [1, 2, 3], shared_tokens=150),
        request(200, 9, [1, 2, 3], "t", scope="t", shared_tokens=120),
        request(200, 9, [7, 8, 9], "a", parent="s", shared_tokens=100),
    )
    assert common(one.spans, other.spans) == 120
    assert common(one.spans, agent.spans) == 0


def test_prompts_without_content_share_nothing_and_spans_stay_what_they_are() -> None:
    """Lengths alone tell no hits; an answer that the trace names keeps its name, unless it is never reused."""
    bare = TraceRequest(1, 100, 5, session="s")
    one, other = laid(bare, bare)
    assert common(one.spans, other.spans) == 0
    named = TraceRequest(1, 100, 5, session="s", content=(Span("text", 0, 100),), answer=Span("text", 100, 5))
    assert laid(named) == [Laid((Span("text", 0, 100),), Span("text", 100, 5))]
    assert laid(named, outputs_reusable="never")[0].answer.content != "text"


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 63), st.integers(1, 200)), max_size=8)
)
def test_prompts_are_as_long_as_recorded_and_share_at_least_what_ids_say(
    turns: list[tuple[list[int], int, int]],
) -> None:
    """Never less than the run of equal ids, and never more than that but the tail and the answer."""
    requests = [request(len(ids) * BLOCK + tail + 1, out, ids) for ids, tail, out in turns]
    prompts = laid(*requests)
    for now, (one, prompt) in enumerate(zip(requests, prompts, strict=True)):
        assert total_tokens(prompt.spans) == one.prompt_tokens
        for before, other in zip(requests[:now], prompts[:now], strict=True):
            assert isinstance(one.content, BlockIds)
            assert isinstance(before.content, BlockIds)
            ids = list(zip(one.content.ids, before.content.ids, strict=False))
            run = next((n for n, (a, b) in enumerate(ids) if a != b), len(ids)) * BLOCK
            assert common(prompt.spans, other.spans) >= run


def test_a_front_is_cut_anywhere() -> None:
    """In the middle of a span too."""
    assert cut((Span("a", 0, 5), Span("b", 3, 5)), 7) == (Span("a", 0, 5), Span("b", 3, 2))
    assert cut((Span("a", 0, 5),), 0) == ()


@pytest.mark.parametrize("tokens", [1, 63])
def test_a_prompt_below_one_block_extends_its_sessions_last(tokens: int) -> None:
    """No id speaks against it."""
    first, second = laid(request(tokens, 5, []), request(tokens + 100, 5, [1]))
    assert common((*first.spans, first.answer), second.spans) == tokens + 5
