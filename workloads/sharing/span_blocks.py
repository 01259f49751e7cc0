"""Spans cut into full blocks, and how far two runs of spans agree."""

from collections.abc import Iterable, Iterator

from workloads.span import Span


def common_tokens(one: Iterable[Span], other: Iterable[Span]) -> int:
    """Return how many leading tokens two prompts share, of spans that are joined as far as they can be."""
    shared = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours[:2] != theirs[:2]:
            break
        shared += min(ours.length, theirs.length)
        if ours.length != theirs.length:
            break
    return shared


def without_first(spans: Iterable[Span], tokens: int) -> Iterator[Span]:
    """Yield what is behind so many tokens."""
    for content, start, length in spans:
        if length > tokens:
            yield Span(content, start + tokens, length - tokens)
        tokens = max(tokens - length, 0)


def blocks_of(spans: Iterable[Span], block_tokens: int) -> Iterator[tuple[Span, ...]]:
    """Yield what each full block holds, of spans that are joined as far as they can be."""
    held: tuple[Span, ...] = ()
    room = block_tokens
    for content, begin, length in spans:
        start, left = begin, length
        while left >= room:
            yield (*held, Span(content, start, room))
            start, left = start + room, left - room
            held, room = (), block_tokens
        if left:
            held = (*held, Span(content, start, left))
            room -= left
