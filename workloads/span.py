"""Spans: what tokens are, without their values.

A span is a run of tokens on a named line of content. Token `i` of a span is the point `start + i` of its
line, so two prompts share a prefix exactly as far as their points agree. Simulated text needs no more:
a shared system prompt is one line, everything private to a session is another. Recorded token ids map
onto a single line on which the token's value is its point.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """`length` tokens of `content`, from its point `start` on."""

    content: Hashable
    start: int
    length: int


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same tokens in the fewest spans: empty ones dropped, touching ones merged."""
    merged: list[Span] = []
    for span in spans:
        if span.length <= 0:
            continue
        if merged:
            last = merged[-1]
            if last.content == span.content and last.start + last.length == span.start:
                merged[-1] = Span(last.content, last.start, last.length + span.length)
                continue
        merged.append(span)
    return tuple(merged)


def front(spans: Iterable[Span], tokens: int) -> tuple[Span, ...]:
    """Return the first so many tokens of the spans, or all where they hold fewer."""
    kept: list[Span] = []
    left = tokens
    for span in spans:
        if left <= 0:
            break
        kept.append(span if span.length <= left else Span(span.content, span.start, left))
        left -= span.length
    return tuple(kept)


def total_tokens(spans: Iterable[Span]) -> int:
    """Return how many tokens the spans hold."""
    return sum(span.length for span in spans)
