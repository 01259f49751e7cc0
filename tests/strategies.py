"""Hypothesis strategies that several rooms share."""

import os

from hypothesis import strategies as st

from workloads.span import Span


def cases(usual: int) -> int:
    """Return how many cases to compare with a reference; KVCLIFF_TEST_CASES=20 asks for twenty times as many."""
    return usual * int(os.environ.get("KVCLIFF_TEST_CASES", "1"))


def spans(*, lines: int = 3, points: int = 12, most: int = 6) -> st.SearchStrategy[list[Span]]:
    """Return few lines of content with near starts, so that two prompts often agree for a while; some are empty."""
    span = st.builds(
        Span, st.sampled_from("abc"[:lines]), st.integers(0, points), st.one_of(st.integers(0, 5), st.integers(0, 30))
    )
    return st.lists(span, max_size=most)


def tokens_of(prompt: list[Span] | tuple[Span, ...]) -> list[tuple[object, int]]:
    """Spell out every token of a prompt as (line, point)."""
    return [(span.content, span.start + i) for span in prompt for i in range(span.length)]
