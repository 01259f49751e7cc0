"""Content as ids of blocks: each id stands for the prompt up to and including its block, as a prefix cache sees it.

prompt   | shared prefix      | session 1              |
blocks   |    0    |    1     |    2     |    3   |         the last one partial
other    |    0    |    1     |    4     |  5  |            the same ids exactly as far as whole blocks agree

Ids are numbered as they are first met, so the same requests give the same file.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from workloads.errors import WorkloadError
from workloads.span import Span, joined, total_tokens
from workloads.traces.request import BlockIds, TraceRequest

MOST_BLOCKS = 2**24  # of one prompt


class NamedBlocks(NamedTuple):
    """A prompt's blocks, and how many tokens at its front are in blocks met before."""

    ids: list[int]
    hit_tokens: int


class BlockNames:
    """Gives the blocks of prompts their ids, equal for equal fronts."""

    def __init__(self, block_tokens: int, first: int = 0, *, partial: bool = True) -> None:
        """`partial`: the last block has an id though it is not full; `first` is the lowest id."""
        if block_tokens < 1:
            raise WorkloadError(f"block_tokens {block_tokens} must be at least 1")
        self.block_tokens = block_tokens
        self.partial = partial
        self._first = first
        self._ids: dict[Hashable, int] = {}

    def of(self, request: TraceRequest) -> NamedBlocks:
        """Return the blocks of a request's prompt; of a prompt without content, all are its own."""
        tokens, size = request.prompt_tokens, self.block_tokens
        blocks = -(-tokens // size) if self.partial else tokens // size
        if blocks > MOST_BLOCKS:
            raise WorkloadError(f"{tokens:,} tokens are {blocks:,} blocks of {size} tokens, more than {MOST_BLOCKS:,}")
        content = request.content
        known = len(self._ids)
        if isinstance(content, BlockIds) and content.block_tokens == size and not request.shared_tokens:
            keys: Iterable[Hashable] = [(content.scope, one) for one in content.ids[:blocks]]
            ids = [self._named(key) for key in keys]
            tail = ("tail", request.file, request.session, request.row)
            ids += [self._named((*tail, place)) for place in range(len(ids), blocks)]
        else:
            ids = self._chained(spans_of(request), blocks)
        found = next((place for place, one in enumerate(ids) if one - self._first >= known), len(ids))
        return NamedBlocks(ids, min(found * size, tokens))

    def fresh(self, tokens: int, owner: Hashable) -> list[int]:
        """Return ids of so many tokens that nothing else has."""
        blocks = -(-tokens // self.block_tokens) if self.partial else tokens // self.block_tokens
        return [self._named(("fresh", owner, place)) for place in range(blocks)]

    def _named(self, key: Hashable) -> int:
        return self._ids.setdefault(key, self._first + len(self._ids))

    def _chained(self, spans: tuple[Span, ...], blocks: int) -> list[int]:
        """Return ids by what a block holds and the block before it."""
        size, ids, before = self.block_tokens, [], -1
        place, offset = 0, 0  # in the spans
        for _ in range(blocks):
            pieces: list[Hashable] = []
            left = size
            while left and place < len(spans):
                content, start, length = spans[place]
                take = min(left, length - offset)
                pieces += (content, start + offset, take)
                left, offset = left - take, offset + take
                if offset == length:
                    place, offset = place + 1, 0
            before = self._named((before, *pieces))
            ids.append(before)
        return ids


def spans_of(request: TraceRequest) -> tuple[Span, ...]:
    """Return a prompt as spans of exactly its length: what nobody can tell is its own."""
    content, tokens = request.content, request.prompt_tokens
    own = ("own", request.file, request.session, request.row)
    spans: list[Span]
    if content is None:
        spans = []
    elif isinstance(content, BlockIds):
        size = content.block_tokens
        spans = [Span((content.scope, one), 0, size) for one in content.ids]
        over = len(spans) * size - tokens
        if over > 0:
            last = spans.pop()
            # A partial block has an id of its own: what it holds is not the front of a full block of another id.
            spans.append(Span(last.content, 0, last.length - over))
    else:
        spans = list(content)
    held = total_tokens(spans)
    if held < tokens:
        spans.append(Span(own, held, tokens - held))
    if request.shared_tokens:
        shared = min(request.shared_tokens, tokens)
        spans = [Span("shared front", 0, shared), *without_front(spans, shared)]
    return joined(spans)


def without_front(spans: Iterable[Span], tokens: int) -> list[Span]:
    """Return the spans after the first so many tokens."""
    left: list[Span] = []
    for content, start, length in spans:
        cut = min(tokens, length)
        tokens -= cut
        if cut < length:
            left.append(Span(content, start + cut, length - cut))
    return left
