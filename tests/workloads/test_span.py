"""Spans are tokens without values: joining changes how they are written, never what they are."""

from itertools import pairwise

from hypothesis import given
from strategies import spans, tokens_of

from workloads import Span, joined, total_tokens


@given(spans())
def test_joined_spans_hold_the_same_tokens(prompt: list[Span]) -> None:
    """Token by token, in order."""
    merged = joined(prompt)
    assert tokens_of(merged) == tokens_of(prompt)
    assert total_tokens(merged) == total_tokens(prompt) == len(tokens_of(prompt))


@given(spans())
def test_joined_spans_are_the_fewest(prompt: list[Span]) -> None:
    """None is empty, no two touch, and joining again changes nothing."""
    merged = joined(prompt)
    assert all(span.length > 0 for span in merged)
    for left, right in pairwise(merged):
        assert (left.content, left.start + left.length) != (right.content, right.start)
    assert joined(merged) == merged


def test_equal_tokens_that_do_not_follow_each_other_stay_apart() -> None:
    """The same point twice is two tokens, not a longer span."""
    assert joined([Span("a", 5, 1), Span("a", 5, 1)]) == (Span("a", 5, 1), Span("a", 5, 1))
    assert joined([Span("a", 5, 1), Span("b", 6, 1)]) == (Span("a", 5, 1), Span("b", 6, 1))
