"""Sessions drawn from a description: each prompt is the last one, its answer, and what is new.

    turn 1   | shared | own system prompt | new 1 |                          -> answer 1
    turn 2   | shared | own system prompt | new 1 | answer 1 | new 2 |       -> answer 2

Where a context limit is given, the oldest turns are dropped from the front of the history as soon as the prompt would
not fit; what they leave is another prompt from there on, for which nothing cached is of use.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from workloads.errors import WorkloadError
from workloads.span import Span, joined, total_tokens
from workloads.traces.request import MOST_TOKENS, TraceRequest

_LEAST_ROOM_TOKENS = 16  # of a context limit, beside what is shared


class DrawnTurn(NamedTuple):
    """What a turn adds, how long the answer is, and the pause before it."""

    new_tokens: int
    output_tokens: int
    gap_s: float | None = None


def session_requests(
    name: str,
    shared: tuple[Span, ...],
    own_tokens: int,
    turns: Iterable[DrawnTurn],
    *,
    most_tokens: int = MOST_TOKENS,
) -> Iterator[TraceRequest]:
    """Yield the requests of a session, which begins at 0.

    `own_tokens` of the session's own follow what is `shared`. `most_tokens` holds prompt and answer: of a longer own
    system prompt seven eighths of the room are kept, and a turn that is too long alone is cut.
    Raises WorkloadError where what is shared leaves no room.
    """
    room_tokens = most_tokens - total_tokens(shared)
    if room_tokens < _LEAST_ROOM_TOKENS:
        raise WorkloadError(f"{total_tokens(shared):,} shared tokens leave no room in a context of {most_tokens:,}")
    line: Hashable = ("session", name)
    own_tokens = min(own_tokens, room_tokens * 7 // 8)
    room_tokens -= own_tokens
    front = joined([*shared, Span(line, 0, own_tokens)])
    starts: deque[int] = deque()  # points at which kept turns begin
    point = own_tokens
    for index, turn in enumerate(turns):
        output_tokens = min(turn.output_tokens, room_tokens - 1)
        starts.append(point)
        point += min(turn.new_tokens, room_tokens - output_tokens)
        while point - starts[0] + output_tokens > room_tokens:
            starts.popleft()
        content = joined([*front, Span(line, starts[0], point - starts[0])])
        answer = Span(line, point, output_tokens)
        point += output_tokens
        yield TraceRequest(
            0,
            total_tokens(content),
            output_tokens,
            0.0 if index == 0 else None,
            name,
            content,
            turn.gap_s if index else None,
            answer=answer,
        )


def numbered(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """Yield drawn requests numbered from 1, as rows of a file are."""
    for row, request in enumerate(requests, start=1):
        yield request._replace(row=row)
