"""What tests of written loads ask: how much an unlimited cache finds again, token for token."""

from collections.abc import Iterable

from workloads.export.blocks import BlockNames
from workloads.traces.request import TraceRequest


def unlimited_hits(requests: Iterable[TraceRequest], block_tokens: int) -> list[int]:
    """Return for each prompt the tokens at its front in whole blocks of an earlier prompt: a set of fronts, no ids."""
    seen: set[tuple[object, ...]] = set()
    hits: list[int] = []
    for request in requests:
        spans = request.content
        assert isinstance(spans, tuple)
        points = [(span.content, span.start + offset) for span in spans for offset in range(span.length)]
        fronts = [hash(tuple(points[: end + block_tokens])) for end in range(0, len(points), block_tokens)]
        found = 0
        for place, front in enumerate(fronts):
            whole = min((place + 1) * block_tokens, len(points))
            if (front, whole) not in seen:
                break
            found = whole
        seen |= {(front, min((place + 1) * block_tokens, len(points))) for place, front in enumerate(fronts)}
        hits.append(found)
    return hits


def named_hits(requests: Iterable[TraceRequest], block_tokens: int, *, partial: bool = True) -> list[int]:
    """Return the same as the ids tell it."""
    names = BlockNames(block_tokens, partial=partial)
    return [names.of(request).hit_tokens for request in requests]
