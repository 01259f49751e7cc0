"""Sessions of a trace, turn by turn: how long each prompt is and how much of what came before is still in its front.

A trace's content says what a prompt shares with the prompt before; answers are rarely in it. Where a prompt grows by at
least the last answer, that answer counts as part of it; where it grows by less, the answer was dropped, as agents drop
thinking. Block ids cannot tell more than whole blocks, so a last partial block that is followed by more counts as kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.session import Session, Turn
from workloads.span import Span
from workloads.traces.common_front import common_tokens
from workloads.traces.request import BlockIds, Content, TraceRequest

_FRONTS = 1000  # sessions whose first prompt is remembered, to find what all share
_SHARED_BY = 0.5  # of the sessions

_ONE_TURN = (
    "requests without a session are sessions of one turn: what they find of each other beyond the front that all share "
    "is not in the profile"
)
ALL = -1  # held tokens: the whole prompt before and its answer


class Step(NamedTuple):
    """One request; `held_tokens` of its front are the front of the session's last prompt and answer."""

    prompt_tokens: int
    output_tokens: int
    held_tokens: int
    gap_s: float | None  # since the last answer
    driver: str | None


@dataclass(slots=True)
class SessionSteps:
    """All sessions of a trace, what they share, and what had to be assumed about them.

    Where each session says how long the front is that it shares, all of them share the median here, and what a session
    has beyond its own front is its own.
    """

    shared_tokens: int = 0
    fronts: dict[str, int] = field(default_factory=dict[str, int])  # of sessions that say it
    steps: dict[str, list[Step]] = field(default_factory=dict[str, list[Step]])
    assumed: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def requests(self) -> int:
        """How many there are in all sessions."""
        return sum(len(steps) for steps in self.steps.values())

    def sessions(self) -> list[Session]:
        """Return them as sessions to send, with pauses between their turns as recorded, and none after the last."""
        prefix = (Span("shared prefix", 0, self.shared_tokens),) if self.shared_tokens else ()
        return [Session(name, prefix, self._turns(name)) for name in self.steps]

    def front(self, name: str) -> int:
        """Return how much of a session's prompts is shared with others."""
        return self.fronts.get(name, self.shared_tokens)

    def _turns(self, name: str) -> tuple[Turn, ...]:
        turns: list[Turn] = []
        steps, shared = self.steps[name], self.front(name)
        before = shared
        for number, step in enumerate(steps):
            later = steps[number + 1] if number + 1 < len(steps) else None
            pause_s = (later.gap_s or 0.0) if later is not None else 0.0
            kept = None if step.held_tokens == ALL or not number else max(step.held_tokens - shared, 0)
            held = before if kept is None else min(shared + kept, before)
            turns.append(Turn(max(step.prompt_tokens - held, 1), step.output_tokens, pause_s, kept))
            before = held + turns[-1].new_tokens + step.output_tokens
        return tuple(turns)


class _Last(NamedTuple):
    request: TraceRequest
    end_s: float | None  # when its answer was complete


def session_steps(requests: Iterable[TraceRequest]) -> SessionSteps:
    """Return the sessions of a trace's main agents; requests without a session are sessions of their own."""
    found = SessionSteps()
    last: dict[str, _Last] = {}
    fronts: list[Content] = []
    subagents = 0
    for request in requests:
        if request.parent is not None:
            subagents += 1
            continue
        if request.session is None:
            found.assumed.setdefault(_ONE_TURN)
        name = f"request {request.row} {request.file or ''}" if request.session is None else request.session
        before = last.get(name)
        if before is None:
            if request.shared_tokens:
                found.fronts[name] = min(request.shared_tokens, request.prompt_tokens - 1)
            if request.content is not None and len(fronts) < _FRONTS:
                fronts.append(request.content)
            step = Step(request.prompt_tokens, request.output_tokens, 0, None, request.driver)
        else:
            gap_s = _gap_s(found, before, request)
            held = _held(found, before.request, request)
            step = Step(request.prompt_tokens, request.output_tokens, held, gap_s, request.driver)
        found.steps.setdefault(name, []).append(step)
        if request.session is not None:
            end_s = None if request.at_s is None else request.at_s + (request.api_s or 0.0)
            last[name] = _Last(request, end_s)
    if subagents:
        found.assumed.setdefault(f"{subagents:,} requests of subagents are left out")
    found.shared_tokens = _told(found) or _common_front(fronts)
    return found


def _gap_s(found: SessionSteps, before: _Last, request: TraceRequest) -> float | None:
    if request.gap_s is not None:
        return request.gap_s
    if before.end_s is None or request.at_s is None:
        found.assumed.setdefault("no pauses are told: none are made")
        return None
    if before.request.api_s is None:
        found.assumed.setdefault(
            "where no times of answers are told, pauses count from the request before and contain its answer"
        )
    return max(request.at_s - before.end_s, 0.0)


def _held(found: SessionSteps, before: TraceRequest, now: TraceRequest) -> int:
    """Return how much of the last prompt and answer is the front of this prompt."""
    whole, answer = before.prompt_tokens, before.output_tokens
    if before.content is None or now.content is None:
        found.assumed.setdefault(
            "prompts without content extend the last one, or keep what all share where they shrink"
        )
        common = whole if now.prompt_tokens >= whole else 0
        block_tokens = 1
    else:
        known: Content = before.content
        if before.answer is not None and not isinstance(known, BlockIds):
            known = (*known, before.answer)
        common = min(common_tokens(known, now.content), now.prompt_tokens)
        block_tokens = known.block_tokens if isinstance(known, BlockIds) else 1
        if before.answer is not None and common >= whole:
            return ALL if common >= whole + answer else common
    if common < whole - whole % block_tokens:
        return common
    grown = now.prompt_tokens - whole
    return ALL if grown >= answer else min(whole, now.prompt_tokens)


def _told(found: SessionSteps) -> int:
    """Return the median of what rows say that sessions share."""
    lengths = sorted(found.fronts.values())
    median = lengths[len(lengths) // 2] if lengths else 0
    if lengths and lengths[0] != lengths[-1]:
        found.assumed.setdefault(f"sessions share {median:,} tokens, the median of {lengths[0]:,} to {lengths[-1]:,}")
    return median


def _common_front(fronts: list[Content]) -> int:
    """Return the longest front that half of the first prompts have in common."""
    needed = max(_SHARED_BY * len(fronts), 2)
    best = 0
    for front in fronts[:20]:  # one of them has it, unless chance is against it by one in a million
        lengths = sorted((common_tokens(front, other) for other in fronts), reverse=True)
        if len(lengths) >= needed:
            best = max(best, lengths[int(-(-needed // 1)) - 1])
    return best
