"""Sessions as SimPy processes: closed loops of N clients, or sessions that arrive from outside.

A client sends a turn, waits for its last token, thinks, and sends the next; when its session is over it starts
another. Every client draws from its own random stream: runs with more sessions, or another engine, meet the same
sessions (common random numbers). Only a staggered start depends on how many clients there are.
"""

import itertools
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import simpy

from sim.engine.engine import Engine
from sim.engine.frontend import FrontendTimes
from sim.engine.given import GivenRequests, given_client
from sim.engine.record import Outcome, Records, TurnRecord
from sim.engine.replayed import ReplayableSession, replay
from workloads.arrivals import Arrivals, Start
from workloads.session import Prompt, Session
from workloads.span import Span, total_tokens


class Sessions(Protocol):
    """Draws sessions."""

    @property
    def prefix(self) -> tuple[Span, ...]:
        """What is in the cache at a warm start."""
        ...

    def session(self, name: str, rng: np.random.Generator, /) -> Session | ReplayableSession:
        """Draw a session."""
        ...


@dataclass(frozen=True, slots=True)
class Population:
    """A kind of user: what its sessions look like, and how many of them come or are always there."""

    name: str
    workload: Sessions
    start: Start
    clients: int = 0  # closed loop: sessions always under way
    arrivals: Arrivals | None = None  # open loop: when sessions begin
    priority: int = 0
    ends_run: bool = True  # False: the stop rule looks at others, these go on until it ends the run


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a run ends: at the first limit that is reached. Counts are of completed turns, or of refused ones."""

    requests: int | None = None
    duration_s: float | None = None
    sessions_per_client: int | None = None


@dataclass(slots=True)
class Audience:
    """Everybody who talks to one engine, and the records they gather."""

    env: simpy.Environment
    engine: Engine
    frontend: FrontendTimes
    stop_rule: StopRule
    records: Records = field(default_factory=list[TurnRecord])
    delivery_s: float = 0.0  # from a step's end until its tokens are with the client
    stop: simpy.Event = field(init=False)
    _answered: Counter[Outcome] = field(default_factory=Counter)
    _active: int = 0

    def __post_init__(self) -> None:
        self.stop = self.env.event()
        if self.stop_rule.duration_s is not None:
            self.env.process(self._stop_at(self.stop_rule.duration_s))

    def add(self, population: Population, index: int, seed: int) -> None:
        """Start a population's clients or its arrivals."""
        streams = np.random.SeedSequence([seed, index]).spawn(2)
        rng = np.random.default_rng(streams[0])
        for client, offset_s in enumerate(population.start.offsets_s(population.clients, rng)):
            own = np.random.default_rng(np.random.SeedSequence([seed, index, client]))
            self._begin(population, self._closed_loop(population, client, offset_s, own))
        if population.arrivals is not None:
            self._begin(population, self._open_loop(population, seed, index, np.random.default_rng(streams[1])))

    def give(self, given: GivenRequests) -> None:
        """Start the client of given requests."""
        self._begin(given, given_client(self, given))

    def _begin(self, population: Population | GivenRequests, process: Generator[simpy.Event, None, None]) -> None:
        if population.ends_run:
            self._active += 1
            process = self._until_over(process)
        self.env.process(process)

    def _until_over(self, process: Generator[simpy.Event, None, None]) -> Generator[simpy.Event, None, None]:
        yield from process
        self._active -= 1
        if not self._active:
            self._end()

    def _stop_at(self, duration_s: float) -> Generator[simpy.Event, None, None]:
        yield self.env.timeout(duration_s)
        self._end()

    def _end(self) -> None:
        if not self.stop.triggered:
            self.stop.succeed()

    def _closed_loop(
        self, population: Population, client: int, offset_s: float, rng: np.random.Generator
    ) -> Generator[simpy.Event, None, None]:
        yield self.env.timeout(offset_s)
        limit = self.stop_rule.sessions_per_client if population.ends_run else None
        counter: Iterator[int] = itertools.count() if limit is None else iter(range(limit))
        think_s = 0.0
        for number in counter:
            if think_s:
                yield self.env.timeout(think_s)
            session = population.workload.session(f"{population.name} {client}.{number}", rng)
            if isinstance(session, Session):
                yield from self._converse(population, client, session)
                think_s = session.turns[-1].think_s
            else:
                yield from replay(self, population, client, session)

    def _open_loop(
        self, population: Population, seed: int, index: int, rng: np.random.Generator
    ) -> Generator[simpy.Event, None, None]:
        assert population.arrivals is not None
        for number, at_s in enumerate(population.arrivals.times(rng)):
            yield self.env.timeout(at_s - self.env.now)
            own = np.random.default_rng(np.random.SeedSequence([seed, index, number, 1]))
            session = population.workload.session(f"{population.name} {number}", own)
            if isinstance(session, Session):
                self._begin(population, self._converse(population, number, session))
            else:
                self._begin(population, replay(self, population, number, session))

    def _converse(self, population: Population, client: int, session: Session) -> Generator[simpy.Event, None, None]:
        think_s = 0.0
        for number, (turn, prompt) in enumerate(zip(session.turns, session.prompts(), strict=True)):
            if think_s:
                yield self.env.timeout(think_s)
            record = self.record(population, client, session.name, number, prompt)
            if not (yield from self.ask(population, prompt, record)):
                self.engine.forget(prompt, total_tokens(session.prefix))
                break
            think_s = turn.think_s

    def record(self, population: Population, client: int, session: str, number: int, prompt: Prompt) -> TurnRecord:
        """Return the record of a turn that is sent now."""
        tokens = total_tokens(prompt.spans)
        return TurnRecord(population.name, client, session, number, tokens, prompt.output.length, self.env.now)

    def ask(self, population: Population, prompt: Prompt, record: TurnRecord) -> Generator[simpy.Event, None, bool]:
        """Send a turn and wait until it is over; return whether it was answered, and not refused."""
        self.records.append(record)
        frontend_s = self.frontend.seconds(record.prompt_tokens)
        if frontend_s:
            yield self.env.timeout(frontend_s)
        done = self.env.event()
        if not self.engine.submit(prompt, record, done.succeed, population.priority):
            # A refusal answers at once; the pause keeps a client without think time from spinning.
            yield self.env.timeout(REFUSAL_PAUSE_S)
            self.count(population, record)
            return False
        yield done
        if self.delivery_s:
            yield self.env.timeout(self.delivery_s)
        self.count(population, record)
        return True

    def count(self, population: Population | GivenRequests, record: TurnRecord) -> None:
        """Count answers of either kind apart: a run in which every turn is refused ends too."""
        assert record.outcome is not Outcome.UNFINISHED
        if not population.ends_run:
            return
        self._answered[record.outcome] += 1
        if self.stop_rule.requests is not None and self._answered[record.outcome] >= self.stop_rule.requests:
            self._end()


REFUSAL_PAUSE_S = 1.0
