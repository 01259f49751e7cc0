"""Requests gathered into conversations: the turns of each session in order, with its subagents beside them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from workloads.errors import WorkloadError
from workloads.traces.request import TraceRequest

Key = tuple[str | None, str]  # file and session


@dataclass(slots=True)
class Conversation:
    """One session."""

    name: str
    turns: list[TraceRequest] = field(default_factory=list)
    children: list["Conversation"] = field(default_factory=list)  # subagents, in the order they are met

    @property
    def after(self) -> int:
        """Of a subagent: how many of its parent's turns came before it."""
        return self.turns[0].after or 0

    def think_s(self, turn: int) -> float | None:
        """Return the pause before a turn, from the answer before it; None where nobody can tell. Of the first, 0."""
        if not turn:
            return 0.0
        before, now = self.turns[turn - 1], self.turns[turn]
        if now.gap_s is not None:
            return now.gap_s
        if now.at_s is None or before.at_s is None or before.api_s is None:
            return None
        return max(now.at_s - before.at_s - before.api_s, 0.0)


def conversations(requests: Iterable[TraceRequest], most: int | None = None) -> list[Conversation]:
    """Return the sessions in the order they begin; the first `most` of them, with their subagents.

    Raises WorkloadError for a request that is of no session, or one whose parent is not there.
    """
    found: dict[Key, Conversation] = {}
    top: list[Conversation] = []
    for request in requests:
        if request.session is None:
            raise WorkloadError(
                f"request {request.row} is of no session: this trace has single requests, and this format sessions; "
                "mooncake holds single requests"
            )
        key = (request.file, request.session)
        if key in found:
            found[key].turns.append(request)
            continue
        one = Conversation(request.session, [request])
        if request.parent is None:
            if most is not None and len(top) == most:
                found[key] = Conversation(request.session, [request])  # left out, as are its turns to come
                continue
            top.append(one)
        else:
            parent = found.get((request.file, request.parent))
            if parent is None:
                raise WorkloadError(f"request {request.row}: its parent session {request.parent[:60]!r} is not there")
            parent.children.append(one)
        found[key] = one
    return top


def flattened(sessions: Iterable[Conversation]) -> Iterable[Conversation]:
    """Yield sessions and their subagents, parents first."""
    for one in sessions:
        yield one
        yield from flattened(one.children)
