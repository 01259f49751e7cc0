"""Recorded prompts laid on lines of content, so that what a session adds and what it is answered are single spans.

Ids of blocks tell how long a front two prompts share, and nothing of the answers between them. Each session gets a
line of its own. A prompt is what it shares with prompts before it, then fresh points of its session's line; the answer
continues that line. If the next prompt holds all of this one and has grown by at least the answer, the answer stands in
its place there too, as an engine that caches its own blocks would find it:

    prompt 1   | front | line 0 .. 900 |                              answer: line 900 .. 1000
    prompt 2   | front | line 0 .. 900 | line 900 .. 1000 | line 1000 .. 1300 |

A prompt that grew by less had the answer, or the thinking in it, taken out. One that shrank was compacted: it keeps
what the ids say, and the rest is fresh. Two prompts that branch off one answer both hold that answer.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from workloads.span import Span, joined, total_tokens
from workloads.traces.request import BlockIds, TraceRequest

Reuse = Literal["auto", "always", "never"]
_SCOPES_KEPT = 64  # of ids that count within one file; files come one after another


class Laid(NamedTuple):
    """A prompt on lines, and its answer."""

    spans: tuple[Span, ...]
    answer: Span


class Line(NamedTuple):
    """Content of one session, in the order in which it was first sent."""

    session: str


class Front(NamedTuple):
    """What a trace says its sessions share without telling its content; subagents have one of their own."""

    of: str


@dataclass(slots=True)
class _Node:
    """A block and all before it: the prompt that held it first, and the latest whose last full block it is."""

    below: dict[Hashable, "_Node"] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    last: "tuple[str, int, Laid] | None" = None  # session, tokens of the prompt, and how it was laid


@dataclass(slots=True)
class Lines:
    """Lays the requests of a trace in their order."""

    outputs_reusable: Reuse = "auto"
    _roots: dict[Hashable, _Node] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)  # of each session's line
    _fronted: set[tuple[Hashable, str]] = field(default_factory=set)

    def lay(self, request: TraceRequest, session: str) -> Laid:
        """Return a request's prompt and answer as spans; the prompt is as long as the trace's."""
        content = request.content
        if isinstance(content, BlockIds):
            return self._lay_blocks(request, content, session)
        if content is None:
            spans = self._fresh(session, request.prompt_tokens)
            return Laid(spans, self._answer(session, request.output_tokens))
        if request.answer is None or self.outputs_reusable == "never":
            return Laid(content, self._answer(session, request.output_tokens))
        return Laid(content, request.answer)

    def _lay_blocks(self, request: TraceRequest, content: BlockIds, session: str) -> Laid:
        ids, size, scope = content
        tokens = request.prompt_tokens
        full = min(tokens // size, len(ids))
        path = [self._root(scope)]
        for one in ids[:full]:
            node = path[-1].below.get(one)
            if node is None:
                break
            path.append(node)
        known = path[-1]
        base = self._base(known, (len(path) - 1) * size, request, session)
        spans = joined([*base, *self._fresh(session, tokens - total_tokens(base))])
        for one in ids[len(path) - 1 : full]:
            node = _Node(spans=spans)
            path[-1].below[one] = node
            path.append(node)
        laid = Laid(spans, self._answer(session, request.output_tokens))
        path[-1].last = session, tokens, laid
        return laid

    def _base(self, known: _Node, known_tokens: int, request: TraceRequest, session: str) -> tuple[Span, ...]:
        """Return what a prompt shares with those before it, the answer included."""
        tokens, last = request.prompt_tokens, known.last
        if last is not None and last[0] == session and tokens >= last[1]:
            before, growth = last[2], tokens - last[1]
            answer = before.answer
            if self.outputs_reusable == "never" or (self.outputs_reusable == "auto" and growth < answer.length):
                return before.spans
            return joined([*before.spans, answer._replace(length=min(growth, answer.length))])
        if known_tokens:
            return cut(known.spans, known_tokens)
        return self._front(request)

    def _front(self, request: TraceRequest) -> tuple[Span, ...]:
        """Return the front shared with other sessions; another front of the same session is its own."""
        shared = min(request.shared_tokens, request.prompt_tokens)
        kind = "sessions" if request.parent is None else "subagents"
        mark = (request.session, kind)
        if not shared or mark in self._fronted:
            return ()
        self._fronted.add(mark)
        return (Span(Front(kind), 0, shared),)

    def _root(self, scope: Hashable) -> _Node:
        if scope not in self._roots:
            local = [one for one in self._roots if one is not None]
            if len(local) >= _SCOPES_KEPT:
                del self._roots[local[0]]
            self._roots[scope] = _Node()
        return self._roots[scope]

    def _fresh(self, session: str, tokens: int) -> tuple[Span, ...]:
        return (self._next(session, tokens),) if tokens > 0 else ()

    def _answer(self, session: str, tokens: int) -> Span:
        return self._next(session, tokens)

    def _next(self, session: str, tokens: int) -> Span:
        start = self._ends.get(session, 0)
        self._ends[session] = start + tokens
        return Span(Line(session), start, tokens)


def cut(spans: Iterable[Span], tokens: int) -> tuple[Span, ...]:
    """Return the first so many tokens."""
    kept = []
    for span in spans:
        if tokens <= 0:
            break
        kept.append(span if span.length <= tokens else span._replace(length=tokens))
        tokens -= span.length
    return tuple(kept)


def common_front(one: tuple[Span, ...], other: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return what two prompts begin with in common."""
    kept = []
    for mine, theirs in zip(one, other, strict=False):
        if mine[:2] != theirs[:2]:
            break
        kept.append(mine if mine.length <= theirs.length else theirs)
        if mine.length != theirs.length:
            break
    return tuple(kept)
