"""A scenario's own load as requests with content: its sessions as they are drawn, or as a simulation sent them.

Sessions are drawn from the same streams as in a simulation, so both are the same sessions; what a simulation adds is
when each turn was sent and how long the answer took.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count, takewhile

import numpy as np

from sim.engine.clients import Population
from sim.engine.record import Outcome, TurnRecord
from sim.engine.replayed import ReplayableSession
from sim.engine.simulation import simulate
from sim.errors import ScenarioError
from sim.setup import Deployment
from workloads.session import Session
from workloads.span import total_tokens
from workloads.traces.request import TraceRequest


def drawn(deployment: Deployment, level: int, seed: int, sessions: int | None) -> list[TraceRequest]:
    """Return the main sessions at a level, without times; by default one a client and session it has.

    Raises ScenarioError for a load that has no sessions, or recorded ones, whose pauses only a simulation knows.
    """
    load = deployment.load_at(level)
    if not load.populations:
        raise ScenarioError("the scenario's load is a trace: export the trace itself")
    population = load.populations[0]
    each = load.stop.sessions_per_client or 1
    wanted = level * each if sessions is None else sessions
    streams = _closed(population, seed) if population.clients else _open(population, seed)
    found: list[TraceRequest] = []
    for session, _ in zip(streams, range(wanted), strict=False):
        if not isinstance(session, Session):
            raise ScenarioError(
                "its sessions are recorded ones, and when their turns are sent depends on the answers: add --times "
                "simulated, or export the trace itself"
            )
        found += _turns(session, len(found))
    return found


def simulated(deployment: Deployment, level: int, seed: int) -> tuple[list[TraceRequest], int]:
    """Return what a simulation sent, in the order it was sent, and how many turns it refused, which are left out."""
    load = deployment.load_at(level)
    run = simulate(deployment.engine, load, seed)
    if load.given is not None:
        given = enumerate(load.given.requests, 1)
        return [
            TraceRequest(
                row, total_tokens(one.prompt.spans), one.prompt.output.length, one.at_s, None, one.prompt.spans
            )
            for row, one in given
        ], 0
    names = {record.session for record in run.records}
    turns: dict[tuple[str | None, int], TraceRequest] = {}
    for index, population in enumerate(load.populations):
        for session in _sent(population, index, seed, names):
            family = _turns(session, 0) if isinstance(session, Session) else _replayed(session)
            numbers: Counter[str | None] = Counter()
            for turn in family:
                turns[turn.session, numbers[turn.session]] = turn
                numbers[turn.session] += 1
    sent: list[TraceRequest] = []
    refused = 0
    begun: set[str | None] = set()
    for record in run.records:
        if record.outcome is Outcome.REFUSED:
            refused += 1
            continue
        turn = turns[record.session, record.turn]
        assert turn.prompt_tokens == record.prompt_tokens, "drawn otherwise than simulated"
        if turn.parent not in begun:  # a subagent before anything of its parent: a session of its own
            turn = turn._replace(parent=None, after=None)
        begun.add(turn.session)
        sent.append(turn._replace(row=len(sent) + 1, at_s=record.arrival_s, api_s=_took_s(record)))
    return sent, refused


def _took_s(record: TurnRecord) -> float | None:
    return record.e2e_s if record.outcome is Outcome.COMPLETED else None


def _turns(session: Session, before: int) -> list[TraceRequest]:
    found: list[TraceRequest] = []
    pause_s = 0.0
    for turn, prompt in zip(session.turns, session.prompts(), strict=True):
        tokens = total_tokens(prompt.spans)
        row = before + len(found) + 1
        request = TraceRequest(row, tokens, turn.output_tokens, None, session.name, prompt.spans, answer=prompt.output)
        found.append(request._replace(gap_s=pause_s) if found else request)
        pause_s = turn.think_s
    return found


def _replayed(session: ReplayableSession, parent: str | None = None, after: int | None = None) -> list[TraceRequest]:
    """Return the turns of a recorded session and its subagents; pauses follow from the simulated times."""
    found: list[TraceRequest] = []
    number = 0
    for number, (turn, prompt) in enumerate(session.prompts(), 1):
        for subagent in session.subagents(turn.subagents):
            found += _replayed(subagent, session.name, number - 1)
        tokens, answer = total_tokens(prompt.spans), prompt.output
        request = TraceRequest(number, tokens, answer.length, None, session.name, prompt.spans, answer=answer)
        found.append(request._replace(parent=parent, after=after))
    for subagent in session.subagents(session.last_subagents):
        found += _replayed(subagent, session.name, number)
    return found


def _sent(population: Population, index: int, seed: int, names: set[str]) -> Iterator[Session | ReplayableSession]:
    """Yield the sessions of a population that a run began."""
    clients = range(population.clients)
    streams = [_client(population, index, client, seed) for client in clients] or [_open(population, seed, index)]
    for stream in streams:
        yield from takewhile(lambda session: _is_begun(session.name, names), stream)


def _is_begun(name: str, names: set[str]) -> bool:
    """Return whether a session sent anything, be it a subagent of it."""
    return name in names or any(one.startswith(f"{name}/") for one in names)


def _closed(population: Population, seed: int) -> Iterator[Session | ReplayableSession]:
    """Yield the first session of every client, then the second of every one, and so on."""
    clients = [_client(population, 0, client, seed) for client in range(population.clients)]
    while True:
        yield from (next(sessions) for sessions in clients)


def _client(population: Population, index: int, client: int, seed: int) -> Iterator[Session | ReplayableSession]:
    rng = np.random.default_rng(np.random.SeedSequence([seed, index, client]))
    for number in count():
        yield population.workload.session(f"{population.name} {client}.{number}", rng)


def _open(population: Population, seed: int, index: int = 0) -> Iterator[Session | ReplayableSession]:
    for number in count():
        rng = np.random.default_rng(np.random.SeedSequence([seed, index, number, 1]))
        yield population.workload.session(f"{population.name} {number}", rng)
