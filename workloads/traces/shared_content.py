"""Which content several sessions of a trace hold: what users who live through it share, and what is each one's own.

Content held by one session alone is renamed for everybody who lives through it. A stretch that two sessions hold keeps
its name, but for answers of which they hold only a part: an answer is shared as a whole or not at all.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from workloads.span import Span, joined
from workloads.traces.content_lines import Front
from workloads.traces.sessions import ReplayedSession, ReplayedTurn

EVERYTHING = 2**62  # tokens
Stretch = tuple[int, int]  # first point, and that after the last
Shared = Mapping[Hashable, tuple[Stretch, ...]]  # stretches ascend and do not touch
FRONTS: Shared = {Front("sessions"): ((0, EVERYTHING),), Front("subagents"): ((0, EVERYTHING),)}


class Owned(NamedTuple):
    """Content of one session as one user lives through it."""

    owner: str
    content: Hashable


def shared_stretches(roots: Iterable[ReplayedSession]) -> Shared:
    """Return what more than one session holds; a session and its subagents are one."""
    held: dict[Hashable, list[Stretch]] = {}
    answers: dict[Hashable, list[Stretch]] = {}
    for root in roots:
        own: dict[Hashable, set[Stretch]] = {}
        for turn in turns_of(root):
            for content, start, length in (*turn.spans, turn.answer):
                own.setdefault(content, set()).add((start, start + length))
            content, start, length = turn.answer
            answers.setdefault(content, []).append((start, start + length))
        for content, stretches in own.items():
            held.setdefault(content, []).extend(_union(stretches))
    found = {content: _twice(stretches) for content, stretches in held.items()}
    whole = {content: _without(twice, answers.get(content, ())) for content, twice in found.items() if twice}
    return {**{content: stretches for content, stretches in whole.items() if stretches}, **FRONTS}


def owned(spans: Iterable[Span], owner: str, shared: Shared, most_shared: int) -> tuple[Span, ...]:
    """Return spans with what is not shared renamed, and with whatever lies beyond the first `most_shared` tokens."""
    named: list[Span] = []
    at = 0
    for span in spans:
        content, mine = span.content, Owned(owner, span.content)
        start, end = span.start, span.start + span.length
        for low, high in _within(shared.get(content, ()), start, min(end, start + max(most_shared - at, 0))):
            named += Span(mine, start, low - start), Span(content, low, high - low)
            start = high
        named.append(Span(mine, start, end - start))
        at += span.length
    return joined(named)


def shared_front_tokens(spans: Iterable[Span], shared: Shared) -> int:
    """Return how long the front of a prompt is that others hold too."""
    count = 0
    for content, start, length in spans:
        low, high = next(_within(shared.get(content, ()), start, start + length), (start, start))
        if low > start:
            break
        count += high - low
        if high - low < length:
            break
    return count


def turns_of(root: ReplayedSession) -> Iterator[ReplayedTurn]:
    """Yield the turns of a session and its subagents."""
    for one in family(root):
        yield from one.turns


def family(session: ReplayedSession) -> Iterator[ReplayedSession]:
    """Yield a session and its subagents."""
    yield session
    for turn in session.turns:
        for one in turn.subagents:
            yield from family(one)
    for one in session.last_subagents:
        yield from family(one)


def _within(stretches: tuple[Stretch, ...], start: int, end: int) -> Iterator[Stretch]:
    """Yield what of the stretches lies between two points."""
    first = max(bisect_right(stretches, (start, EVERYTHING)) - 1, 0)
    for low, high in stretches[first:]:
        if low >= end:
            break
        if high > start:
            yield max(low, start), min(high, end)


def _union(stretches: Iterable[Stretch]) -> list[Stretch]:
    merged: list[Stretch] = []
    for low, high in sorted(stretches):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _twice(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Return where two or more of the stretches lie over each other."""
    found: list[Stretch] = []
    reach = -1
    for low, high in sorted(stretches):
        if low < reach:
            found.append((low, min(high, reach)))
        reach = max(reach, high)
    return tuple(_union(found))


def _without(stretches: tuple[Stretch, ...], answers: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Return stretches without the answers of which they hold only a part."""
    left = list(stretches)
    for low, high in answers:
        parts = list(_within(tuple(left), low, high))
        if not parts or parts == [(low, high)]:
            continue
        left = [piece for one in left for piece in ((one[0], min(one[1], low)), (max(one[0], high), one[1]))]
        left = sorted(piece for piece in left if piece[0] < piece[1])
    return tuple(left)
