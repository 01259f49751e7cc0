"""Makes paths of a trace's requests while it is read: blocks numbered, requests put in the order of their times.

Content in block ids keeps its blocks; spans are cut into full blocks of `span_block_tokens`, as an engine shares no
partial one. Requests of traces without one clock are laid on one: every session begins at 0, and each request comes its
gap after the answer before it. Answers are not kept.
"""

from array import array
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from workloads.sharing.block_paths import BlockPaths, as_tree, numbered_from_0
from workloads.sharing.span_blocks import blocks_of, common_tokens, without_first
from workloads.span import Span, joined
from workloads.traces.format import Clock
from workloads.traces.request import BlockIds, TraceRequest

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

MOST_BLOCKS = 40_000_000  # of all paths together: 160 MB
MOST_NUMBERED = 3_000_000  # distinct blocks of which each takes an entry in a table: some 200 bytes
_MOST_PLAIN = 2**26  # ids below are their own numbers
SPAN_BLOCK_TOKENS = 16  # vLLM's default


class PathCollector:
    """Takes requests until it is full; `left_out` counts those that came too late."""

    def __init__(self, clock: Clock, *, span_block_tokens: int = SPAN_BLOCK_TOKENS) -> None:
        self.left_out = 0
        self.mixed = False  # blocks of several sizes: no one cache size
        self.timed = True  # the trace tells when requests come, or how long sessions pause
        self._clock, self._span_block_tokens = clock, span_block_tokens
        self._block_tokens: int | None = None
        self._numbers = count(_MOST_PLAIN)
        self._scopes: dict[Hashable, defaultdict[Hashable, int]] = {}
        self._of_spans: defaultdict[tuple[Hashable, ...], int] = defaultdict(self._numbers.__next__)
        self._last: dict[str, tuple[tuple[Span, ...], int]] = {}  # of each session: its spans, where its blocks begin
        self._blocks, self._starts = array("i"), array("q", [0])
        self._prompt, self._shared = array("i"), array("i")
        self._begin_s, self._end_s = array("d"), array("d")
        self._session_end_s: dict[str, float] = {}
        self._numbered = 0

    def add(self, request: TraceRequest) -> None:
        """Take a request, after those before it."""
        if self.left_out or len(self._blocks) > MOST_BLOCKS or self._numbered > MOST_NUMBERED:
            self.left_out += 1
            return
        content = request.content
        if content is not None:
            self._take(request, content)
        self._starts.append(len(self._blocks))
        self._prompt.append(request.prompt_tokens)
        self._shared.append(request.shared_tokens // (self._block_tokens or self._span_block_tokens))
        self._time(request)

    def _take(self, request: TraceRequest, content: BlockIds | tuple[Span, ...]) -> None:
        if not isinstance(content, BlockIds):
            self._sized(self._span_block_tokens)
            self._take_spans(request.session, joined(content))
            return
        self._sized(content.block_tokens)
        ids = content.ids
        if content.scope is None and _are_plain(ids):
            self._blocks.extend(ids)
            return
        numbers = self._scopes.get(content.scope)
        if numbers is None:
            numbers = self._scopes[content.scope] = defaultdict(self._numbers.__next__)
        before = len(numbers)
        self._blocks.extend(map(numbers.__getitem__, ids))
        self._numbered += len(numbers) - before

    def _sized(self, block_tokens: int) -> None:
        self.mixed |= self._block_tokens not in {None, block_tokens}
        self._block_tokens = block_tokens

    def _take_spans(self, session: str | None, spans: tuple[Span, ...]) -> None:
        """Give full blocks a number by what they hold and what is before them; those of the last prompt keep theirs."""
        block_tokens, blocks = self._span_block_tokens, self._blocks
        last, at = self._last.get(session or "", ((), 0))
        same = common_tokens(last, spans) // block_tokens
        begin = len(blocks)
        blocks.extend(blocks[at : at + same])
        number = blocks[-1] if same else -1
        before = len(self._of_spans)
        for part in blocks_of(without_first(spans, same * block_tokens), block_tokens):
            key = (number, *part[0][:2]) if len(part) == 1 else (number, *part)
            number = self._of_spans[key]
            blocks.append(number)
        self._numbered += len(self._of_spans) - before
        if session is not None:
            self._last[session] = (spans, begin)

    def _time(self, request: TraceRequest) -> None:
        at_s, session = request.at_s, request.session
        before_s = None if session is None else self._session_end_s.get(session)
        if at_s is None or (self._clock is not Clock.TRACE and before_s is not None and request.gap_s is not None):
            if before_s is None:  # a session's first
                at_s = self._session_end_s.get(request.parent or "", 0.0) if self._clock is not Clock.NONE else 0.0
                self.timed &= session is not None
            else:
                self.timed &= request.gap_s is not None
                at_s = before_s + (request.gap_s or 0.0)
        elif before_s is None and request.parent is not None and self._clock is Clock.SESSION:
            at_s += self._session_end_s.get(request.parent, 0.0)
        end_s = at_s + (request.api_s or 0.0)
        self._begin_s.append(at_s)
        self._end_s.append(end_s)
        if session is not None:
            self._session_end_s[session] = end_s

    @property
    def apart(self) -> bool:
        """Tell whether sessions have clocks of their own, so that only a session's own gaps are real."""
        return self._clock is not Clock.TRACE

    def paths(self) -> BlockPaths:
        """Return the paths, in the order of times where there are any."""
        begin_s, starts = np.array(self._begin_s), np.array(self._starts)
        blocks = np.array(self._blocks, np.int32)
        order = np.argsort(begin_s, kind="stable") if self.timed else np.arange(len(begin_s))
        lengths = np.diff(starts)[order]
        if not np.array_equal(order, np.arange(len(order))):
            pieces = [blocks[starts[one] : starts[one + 1]] for one in order.tolist()]
            blocks = np.concatenate(pieces) if pieces else blocks
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        blocks, distinct = as_tree(*numbered_from_0(blocks), starts)
        return BlockPaths(
            blocks,
            starts,
            np.array(self._prompt, np.int32)[order],
            np.array(self._shared, np.int32)[order],
            self._block_tokens or self._span_block_tokens,
            distinct,
            begin_s[order] if self.timed else None,
            np.array(self._end_s)[order] if self.timed else None,
        )


def _are_plain(ids: "Sequence[Hashable]") -> "TypeGuard[Sequence[int]]":
    """Tell whether ids are small whole numbers; of no ids that is true."""
    try:
        return not ids or (max(ids) < _MOST_PLAIN and min(ids) >= 0 and isinstance(ids[0], int))  # type: ignore[type-var,operator]
    except TypeError:
        return False
