"""Given requests instead of drawn sessions: each is sent at its time, whatever became of those before it.

One process sends them all, and nobody waits for an answer: a request costs an event or two, and what is not under way
is not in memory.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import simpy

from sim.engine.record import TurnRecord
from workloads.recorded import RecordedRequest
from workloads.session import Prompt
from workloads.span import total_tokens

if TYPE_CHECKING:
    from sim.engine.clients import Audience


@dataclass(frozen=True, slots=True)
class GivenRequests:
    """What is sent, by ascending time; gone through once a run. A record's session is the number of its request."""

    name: str
    requests: Iterable[RecordedRequest]
    priority: int = 0
    ends_run: bool = True


def given_client(audience: "Audience", given: GivenRequests) -> Generator[simpy.Event, None, None]:
    """Send the requests, and wait until the last is answered."""
    env, frontend = audience.env, audience.frontend
    in_flight = 0
    all_answered: simpy.Event | None = None

    def arrive(record: TurnRecord, prompt: Prompt, tries: int, _: object = None) -> None:
        if audience.engine.submit(prompt, record, partial(answered, record), given.priority):
            return
        pause_s = audience.pause_before_retry(record, tries)
        if pause_s is None:
            answered(record)
        else:
            env.timeout(pause_s).callbacks.append(partial(arrive, record, prompt, tries + 1))

    def answered(record: TurnRecord) -> None:
        nonlocal in_flight
        in_flight -= 1
        audience.count(given, record)
        if not in_flight and all_answered is not None:
            all_answered.succeed()

    for number, (at_s, prompt) in enumerate(given.requests):
        if at_s > env.now:
            yield env.timeout(at_s - env.now)
        tokens = total_tokens(prompt.spans)
        record = TurnRecord(given.name, 0, str(number), 0, tokens, prompt.output.length, env.now)
        audience.records.append(record)
        in_flight += 1
        frontend_s = frontend.seconds(tokens)
        if frontend_s:
            env.timeout(frontend_s).callbacks.append(partial(arrive, record, prompt, 1))
        else:
            arrive(record, prompt, 1)
    if in_flight:
        all_answered = env.event()
        yield all_answered
