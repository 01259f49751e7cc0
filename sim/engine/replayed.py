"""Recorded sessions lived through again, as SimPy processes.

A turn thinks after the answer before it. Subagents run beside each other, and whoever started them waits until they are
over.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import simpy

from workloads.session import Prompt
from workloads.span import Span

if TYPE_CHECKING:
    from sim.engine.clients import Audience, Population


class ReplayableTurn(Protocol):
    """When a turn is sent, and who has to be over before. Seconds."""

    @property
    def think_s(self) -> float:
        """After the answer to the turn before, or the end of the subagents."""
        ...

    @property
    def due_s(self) -> float | None:
        """After the start of the session, and never before the answer; in place of thinking."""
        ...

    @property
    def subagents(self) -> Sequence[Any]:
        """Started at the answer to the turn before."""
        ...


class ReplayableSession(Protocol):
    """A recorded session as one client lives through it."""

    @property
    def name(self) -> str:
        """No other session's."""
        ...

    @property
    def depth(self) -> int:
        """1 for a subagent."""
        ...

    @property
    def last_subagents(self) -> Sequence[Any]:
        """Started at the last answer."""
        ...

    def prompts(self) -> Iterator[tuple[ReplayableTurn, Prompt]]:
        """Yield the turns in order."""
        ...

    def subagents(self, of: Any, /) -> Sequence["ReplayableSession"]:
        """Return subagents as this session's."""
        ...

    def shared_tokens(self, spans: tuple[Span, ...], /) -> int:
        """Return how much of the front of a prompt may be sent again by others."""
        ...


def replay(
    audience: "Audience", population: "Population", client: int, session: ReplayableSession
) -> Generator[simpy.Event, None, None]:
    """Live through a session; a refused turn ends it, as nobody can go on from an answer that never came."""
    env = audience.env
    began_s = env.now
    for number, (turn, prompt) in enumerate(session.prompts()):
        if turn.subagents:
            yield _together(audience, population, client, session.subagents(turn.subagents))
        wait_s = turn.think_s if turn.due_s is None else began_s + turn.due_s - env.now
        if wait_s > 0:
            yield env.timeout(wait_s)
        record = audience.record(population, client, session.name, number, prompt)
        record.depth = session.depth
        if not (yield from audience.ask(population, prompt, record)):
            if not session.depth:  # a subagent's content may be its parent's too
                audience.engine.forget(prompt, session.shared_tokens(prompt.spans))
            return
    if session.last_subagents:
        yield _together(audience, population, client, session.subagents(session.last_subagents))


def _together(
    audience: "Audience", population: "Population", client: int, sessions: Sequence[ReplayableSession]
) -> simpy.Event:
    """Start sessions at once; return the event of the last one's end."""
    env = audience.env
    return env.all_of([env.process(replay(audience, population, client, one)) for one in sessions])
