"""Recorded sessions: requests gathered by session, each prompt laid on lines, pauses and subagents in their places.

A turn waits for the answer to the one before, or for the subagents started in between to be over, and then thinks.
Where subagents ran, the recorded pause contains them: what is left of it is the thinking.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from workloads.errors import WorkloadError
from workloads.span import Span
from workloads.traces.content_lines import Laid, Lines, Reuse
from workloads.traces.request import TraceRequest

Times = Literal["closed", "recorded"]
Ids = Literal["local", "rename", "keep"]
TooLong = Literal["end", "drop", "refuse"]
MOST_DEPTH = 32  # of subagents of subagents


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """What a replay makes of a trace."""

    times: Times = "closed"
    gap_cap_s: float | None = None
    ids: Ids = "local"
    shared_prefix_share: float = 1.0
    outputs_reusable: Reuse = "auto"
    max_context_tokens: int | None = None
    too_long: TooLong = "end"
    share: float = 1.0
    sessions: int | None = None
    seed: int = 0


class ReplayedTurn(NamedTuple):
    """One request of a session. Contents have the trace's names."""

    spans: tuple[Span, ...]
    answer: Span
    prompt_tokens: int
    think_s: float  # after the answer to the turn before, or the end of the subagents
    due_s: float | None  # of `recorded` times: after the start of the session, if that is later
    subagents: "tuple[ReplayedSession, ...]"  # started at the answer to the turn before, and over before this one


class ReplayedSession(NamedTuple):
    """One session as it will be lived through."""

    name: str
    turns: tuple[ReplayedTurn, ...]
    last_subagents: "tuple[ReplayedSession, ...]" = ()  # those started after the last answer
    depth: int = 0  # 1: a subagent


@dataclass(slots=True)
class Changes:
    """How often each rule changed something."""

    ended: int = 0  # sessions cut short
    cut_turns: int = 0  # and the turns they lost
    dropped: int = 0  # whole sessions
    refused: int = 0  # turns sent although they are too long
    capped_gaps: int = 0
    capped_s: float = 0.0
    gaps_from_arrivals: int = 0  # pauses that the trace does not tell: from arrival to arrival, service included
    unknown_gaps: int = 0
    kept_answers: int = 0  # turns whose prompt holds the answer before it
    left_answers: int = 0
    orphans: int = 0  # subagents whose parent is missing


@dataclass(slots=True)
class _Gathered:
    """A session under way."""

    name: str
    parent: str | None
    after: int
    row: int
    requests: list[tuple[TraceRequest, Laid]] = field(default_factory=list)  # without their contents
    children: "list[_Gathered]" = field(default_factory=list)


def gather(requests: Iterable[TraceRequest], rules: ReplayRules, changes: Changes, place: str) -> list[ReplayedSession]:
    """Return the sessions of a trace in their order, subagents inside.

    Raises WorkloadError where requests have no session, or no times that the rules need, or parents go round in a
    circle.
    """
    lines = Lines(rules.outputs_reusable)
    found: dict[str, _Gathered] = {}
    for request in requests:
        name = request.session
        if name is None:
            raise WorkloadError(
                f"{place}:{request.row}: a request of no session: a replay needs sessions (load.kind trace sends "
                "single requests at their times)"
            )
        one = found.get(name)
        if one is None:
            one = found[name] = _Gathered(name, request.parent, request.after or 0, request.row)
        laid = lines.lay(request, name)
        one.requests.append((request._replace(content=None), laid))
    roots = _families(found, changes, place)
    try:
        return [session for root in roots if (session := _session(root, rules, changes, 0)) is not None]
    except WorkloadError as error:
        raise WorkloadError(f"{place}: {error}") from None


def _holds_some(spans: tuple[Span, ...], answer: Span) -> bool:
    """Return whether a prompt holds the beginning of an answer."""
    return any(
        span.content == answer.content and span.start <= answer.start < span.start + span.length for span in spans
    )


def _families(found: dict[str, _Gathered], changes: Changes, place: str) -> list[_Gathered]:
    roots = []
    for one in found.values():
        parent = None if one.parent is None else found.get(one.parent)
        if one.parent is not None and parent is None:
            changes.orphans += 1
        if parent is None:
            roots.append(one)
        else:
            parent.children.append(one)
    for one in found.values():
        above, depth = one, 0
        while above.parent in found:
            above, depth = found[above.parent], depth + 1
            if depth > MOST_DEPTH:
                raise WorkloadError(
                    f"{place}:{one.row}: session {one.name[:60]!r} has parents that go round in a circle, or more than "
                    f"{MOST_DEPTH}"
                )
    return roots


def _session(one: _Gathered, rules: ReplayRules, changes: Changes, depth: int) -> ReplayedSession | None:
    """Return a session under the rules; None where they drop it."""
    kept = _kept(one, rules, changes)
    if not kept:
        return None
    children, recorded_s = _children(one, kept, rules, changes, depth)
    turns = []
    due_s = 0.0
    for number, (request, laid) in enumerate(one.requests[:kept]):
        think_s = max(_gap_s(one.requests, number, changes) - recorded_s[number], 0.0)
        cut_s = 0.0 if rules.gap_cap_s is None else max(think_s - rules.gap_cap_s, 0.0)
        changes.capped_gaps += cut_s > 0
        changes.capped_s += cut_s
        if number:
            holds = _holds_some(laid.spans, one.requests[number - 1][1].answer)
            changes.kept_answers += holds
            changes.left_answers += not holds
        if number and rules.times == "recorded":
            due_s = max(due_s + _step_s(one.requests, number, one.name) - cut_s, 0.0)
        due = due_s if rules.times == "recorded" else None
        agents = tuple(children[number])
        turns.append(ReplayedTurn(laid.spans, laid.answer, request.prompt_tokens, think_s - cut_s, due, agents))
    return ReplayedSession(one.name, tuple(turns), tuple(children[kept]), depth)


def _kept(one: _Gathered, rules: ReplayRules, changes: Changes) -> int:
    """Return how many of its turns a session keeps."""
    too_long = [number for number, (request, _) in enumerate(one.requests) if _is_too_long(request, rules)]
    many = len(one.requests)
    if not too_long:
        return many
    if rules.too_long == "refuse":
        changes.refused += len(too_long)
        return many
    kept = 0 if rules.too_long == "drop" else too_long[0]
    if kept:
        changes.ended += 1
        changes.cut_turns += many - kept
    else:
        changes.dropped += 1
    return kept


def _children(
    one: _Gathered, kept: int, rules: ReplayRules, changes: Changes, depth: int
) -> tuple[list[list[ReplayedSession]], list[float]]:
    """Return the subagents before each turn and after the last, and how long the longest took when recorded."""
    children: list[list[ReplayedSession]] = [[] for _ in range(kept + 1)]
    recorded_s = [0.0] * (kept + 1)
    many = len(one.requests)
    for child in one.children:
        if kept < many and child.after >= kept:
            continue  # it belongs to what was cut off
        place = min(child.after, kept)
        recorded_s[place] = max(recorded_s[place], _recorded_s(child))
        session = _session(child, rules, changes, depth + 1)
        if session is not None:
            children[place].append(session)
    return children, recorded_s


def _is_too_long(request: TraceRequest, rules: ReplayRules) -> bool:
    most = rules.max_context_tokens
    return most is not None and request.prompt_tokens + request.output_tokens > most


def _gap_s(requests: list[tuple[TraceRequest, Laid]], number: int, changes: Changes) -> float:
    """Return the pause before a request, as recorded."""
    request = requests[number][0]
    if not number:
        return 0.0  # before a session begins nobody waits
    if request.gap_s is not None:
        return request.gap_s
    before = requests[number - 1][0]
    if request.at_s is None or before.at_s is None:
        changes.unknown_gaps += 1
        return 0.0
    if before.api_s is None:
        changes.gaps_from_arrivals += 1
    return max(request.at_s - before.at_s - (before.api_s or 0.0), 0.0)


def _step_s(requests: list[tuple[TraceRequest, Laid]], number: int, place: str) -> float:
    """Return the recorded time from one request to the next.

    Raises WorkloadError where it is not told.
    """
    request, before = requests[number][0], requests[number - 1][0]
    if request.at_s is not None and before.at_s is not None:
        return max(request.at_s - before.at_s, 0.0)
    if request.gap_s is not None and before.api_s is not None:
        return request.gap_s + before.api_s
    raise WorkloadError(
        f"session {place[:60]!r}: request {request.row} has no recorded time; replay.times closed needs none"
    )


def _recorded_s(one: _Gathered) -> float:
    """Return how long a subagent took when it was recorded, as far as the trace tells."""
    first, last = one.requests[0][0], one.requests[-1][0]
    if first.at_s is not None and last.at_s is not None:
        return max(last.at_s - first.at_s, 0.0) + (last.api_s or 0.0)
    return sum((request.gap_s or 0.0) + (request.api_s or 0.0) for request, _ in one.requests)
