"""A scenario's own load as requests with content: its sessions as they are drawn, or as a simulation sent them.

Sessions are drawn from the same streams as in a simulation, so both are the same sessions; what a simulation adds is
when each turn was sent and how long the answer took.
"""

from collections.abc import Iterator
from itertools import count

import numpy as np

from sim.engine.clients import Population
from sim.engine.record import Outcome, TurnRecord
from sim.engine.simulation import simulate
from sim.errors import ScenarioError
from sim.setup import Deployment
from workloads.session import Session
from workloads.span import total_tokens
from workloads.traces.request import TraceRequest


def drawn(deployment: Deployment, level: int, seed: int, sessions: int | None) -> list[TraceRequest]:
    """Return the main sessions at a level, without times; by default one a client and session it has.

    Raises ScenarioError for a load that has no sessions.
    """
    load = deployment.load_at(level)
    if not load.populations:
        raise _is_trace()
    population = load.populations[0]
    each = load.stop.sessions_per_client or 1
    wanted = level * each if sessions is None else sessions
    streams = _closed(population, seed) if population.clients else _open(population, seed)
    found: list[TraceRequest] = []
    for session, _ in zip(streams, range(wanted), strict=False):
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
    turns: dict[tuple[str, int], TraceRequest] = {}
    for index, population in enumerate(load.populations):
        for session in _sent(population, index, seed, names):
            turns |= {(session.name, number): turn for number, turn in enumerate(_turns(session, 0))}
    sent: list[TraceRequest] = []
    refused = 0
    for record in run.records:
        if record.outcome is Outcome.REFUSED:
            refused += 1
            continue
        turn = turns[record.session, record.turn]
        assert turn.prompt_tokens == record.prompt_tokens, "drawn otherwise than simulated"
        sent.append(turn._replace(row=len(sent) + 1, at_s=record.arrival_s, api_s=_took_s(record)))
    return sent, refused


def _is_trace() -> ScenarioError:
    return ScenarioError("the scenario's load is a trace: export the trace itself")


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


def _sent(population: Population, index: int, seed: int, names: set[str]) -> Iterator[Session]:
    """Yield the sessions of a population that a run began."""
    if population.clients:
        for client in range(population.clients):
            for session in _client(population, index, client, seed):
                if session.name not in names:
                    break
                yield session
        return
    for session in _open(population, seed, index):
        if session.name not in names:
            break
        yield session


def _closed(population: Population, seed: int) -> Iterator[Session]:
    """Yield the first session of every client, then the second of every one, and so on."""
    clients = [_client(population, 0, client, seed) for client in range(population.clients)]
    while True:
        yield from (next(sessions) for sessions in clients)


def _client(population: Population, index: int, client: int, seed: int) -> Iterator[Session]:
    rng = np.random.default_rng(np.random.SeedSequence([seed, index, client]))
    for number in count():
        yield _drawn(population, f"{population.name} {client}.{number}", rng)


def _open(population: Population, seed: int, index: int = 0) -> Iterator[Session]:
    for number in count():
        rng = np.random.default_rng(np.random.SeedSequence([seed, index, number, 1]))
        yield _drawn(population, f"{population.name} {number}", rng)


def _drawn(population: Population, name: str, rng: np.random.Generator) -> Session:
    """Draw a session; raises ScenarioError for one that is recorded, whose turns only a simulation knows."""
    session = population.workload.session(name, rng)
    if not isinstance(session, Session):
        raise _is_trace()
    return session
