"""Given requests instead of drawn sessions: a benchmark client that sends them in order to one or several engines.

A request leaves at its own time, or later if `most_in_flight` others are still under way. With all times 0 the cap
makes a closed loop; without a cap the times make an open one. Latencies count from the send, as clients measure.
A client that loses patience closes the connection, and the engine drops the request. A session counts as one under way
from its first turn to its last.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

import simpy

from sim.engine.collector import collector_off
from sim.engine.engine import Engine
from sim.engine.record import EngineLog, Outcome, Run, TurnRecord
from sim.engine.simulation import EngineSetup, engine_of
from workloads.recorded import RecordedRequest, RecordedSession
from workloads.session import Prompt
from workloads.span import Span, total_tokens

POPULATION = "recorded"
_QUEUED_WEIGHS = 4  # vLLM's data-parallel balancer: a waiting request counts as four running ones


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """What one client sends. Seconds; `requests` may be endless where `duration_s` is given."""

    requests: Iterable[RecordedRequest | RecordedSession]
    most_in_flight: int | None = None
    time_out_s: float | None = None  # the client gives up this long after the send
    duration_s: float | None = None  # the client stops, answers or not
    per_request_s: float = 0.0  # between the client's send and the engine's queue
    per_prompt_token_s: float = 0.0  # likewise, of tokenisation
    warm: tuple[Span, ...] = ()  # a prefix the engines' caches hold before the first request


def simulate_recorded(setup: EngineSetup, loads: Sequence[RecordedLoad], engines: int = 1) -> list[Run]:
    """Send the loads one after another, each when the last is over, to engines that stay up; one run a load.

    Times in a run count from the start of its load, and its log holds that load alone.
    """
    env = simpy.Environment(0.0)
    fleet = [engine_of(env, setup) for _ in range(engines)]
    runs: list[Run] = []
    for load in loads:
        start_s = env.now
        for engine in fleet:
            if load.warm:
                engine.warm(load.warm)
            engine.restart_log()
        client = _Client(env, fleet, load)
        with collector_off():
            env.run(until=env.process(client.send_all()))
        if start_s:
            for record in client.records:
                record.shift(-start_s)
        for engine in fleet:
            engine.settle()
        log = _together([engine.log() for engine in fleet])
        runs.append(Run(client.records, log, env.now - start_s, setup.num_gpu_blocks * engines))
    return runs


class _Client:
    def __init__(self, env: simpy.Environment, fleet: Sequence[Engine], load: RecordedLoad) -> None:
        self.env = env
        self.records: list[TurnRecord] = []
        self._fleet = fleet
        self._load = load
        self._in_flight = 0
        self._room: simpy.Event | None = None  # somebody waits for an answer
        self._waits = bool(load.per_request_s or load.per_prompt_token_s) or load.time_out_s is not None

    def send_all(self) -> Generator[simpy.Event, None, None]:
        start_s = self.env.now
        end_s = float("inf") if self._load.duration_s is None else start_s + self._load.duration_s
        stop = None if self._load.duration_s is None else self.env.timeout(self._load.duration_s)
        for number, request in enumerate(self._load.requests):
            due_s = start_s + request.at_s
            if due_s >= end_s:
                break
            if due_s > self.env.now:
                yield self.env.timeout(due_s - self.env.now)
            while self._in_flight == self._load.most_in_flight:
                yield self._next_room(stop)
                if self.env.now >= end_s:
                    return
            self._in_flight += 1
            if isinstance(request, RecordedSession):
                self.env.process(self._converse(number, request))
            elif self._waits:
                self.env.process(self._ask(number, request.prompt))
            else:
                record = self._record(number, request.prompt)
                if not self._engine().submit(request.prompt, record, self._answered):
                    self._answered()
        while self._in_flight and self.env.now < end_s:
            yield self._next_room(stop)

    def _next_room(self, stop: simpy.Event | None) -> simpy.Event:
        self._room = self.env.event()
        return self._room if stop is None else self._room | stop

    def _record(self, number: int, prompt: Prompt, turn: int = 0) -> TurnRecord:
        tokens = total_tokens(prompt.spans)
        record = TurnRecord(POPULATION, 0, str(number), turn, tokens, prompt.output.length, self.env.now)
        self.records.append(record)
        return record

    def _ask(self, number: int, prompt: Prompt) -> Generator[simpy.Event, None, None]:
        yield from self._turn(self._record(number, prompt), prompt)
        self._answered()

    def _converse(self, number: int, session: RecordedSession) -> Generator[simpy.Event, None, None]:
        """Send a session's turns until one is not answered."""
        for turn, (pause_s, prompt) in enumerate(session.turns):
            if turn and pause_s:
                yield self.env.timeout(pause_s)
            record = self._record(number, prompt, turn)
            yield from self._turn(record, prompt)
            if record.outcome is not Outcome.COMPLETED:
                break
        self._answered()

    def _turn(self, record: TurnRecord, prompt: Prompt) -> Generator[simpy.Event, None, None]:
        """Send a request that takes its time to arrive, or whose client may give up; return when it is over."""
        load = self._load
        gives_up = None if load.time_out_s is None else self.env.timeout(load.time_out_s)
        arriving_s = load.per_request_s + load.per_prompt_token_s * record.prompt_tokens
        if arriving_s:
            yield self.env.timeout(arriving_s)
        engine, done = self._engine(), self.env.event()
        if engine.submit(prompt, record, done.succeed):
            yield done if gives_up is None else done | gives_up
            if not done.triggered:
                engine.abort(record)

    def _engine(self) -> Engine:
        """Return the engine that gets the next request."""
        fleet = self._fleet
        return fleet[0] if len(fleet) == 1 else min(fleet, key=_load_of)

    def _answered(self) -> None:
        self._in_flight -= 1
        if self._room is not None:
            room, self._room = self._room, None
            room.succeed()


def _together(logs: Sequence[EngineLog]) -> EngineLog:
    """Return the logs as one: sums, and of the KV usage the largest."""
    return EngineLog(
        steps=sum(log.steps for log in logs),
        busy_s=sum(log.busy_s for log in logs),
        computed_tokens=sum(log.computed_tokens for log in logs),
        kv_usage_peak=max(log.kv_usage_peak for log in logs),
        kv_usage_seconds=sum(log.kv_usage_seconds for log in logs),
        evicted_blocks=sum(log.evicted_blocks for log in logs),
        running_peak=sum(log.running_peak for log in logs),
    )


def _load_of(engine: Engine) -> int:
    scheduler = engine.scheduler
    return _QUEUED_WEIGHS * len(scheduler.waiting) + len(scheduler.running)
