"""BLIS's workload specifications (inference-sim): clients and cohorts by rate or concurrency, drawn in order of time.

Conversations begin at their client's arrivals; later rounds come `think_time_us` after an answer, which a closed loop
replays by their gaps: the times given here are the earliest, as if answers took nothing. Requests of clients with
`concurrency` come one after another, and are given times as if answers took a second.
"""

import heapq
from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from workloads.span import Span, joined, total_tokens
from workloads.traces.blis_arrivals import arrivals, check_arrivals
from workloads.traces.blis_populations import Active, Sender, senders
from workloads.traces.blis_spec import Spec
from workloads.traces.drawn_session import DrawnTurn, numbered, session_requests
from workloads.traces.format import Format, Head
from workloads.traces.reading import Reading
from workloads.traces.request import TraceRequest
from workloads.traces.spec_document import spec_document, yaml_keys

_KEYS = frozenset({"clients", "cohorts", "inference_perf", "servegen_data"})
_DEFAULT_REQUESTS = 1_000
_ANSWER_S = 1.0  # of clients that wait for answers


class Start(NamedTuple):
    """A session's beginning; 0 rounds are rounds without end."""

    at_s: float
    rounds: int
    requests: Iterator[TraceRequest]


def recognises(head: Head) -> bool:
    """Tell by the keys."""
    keys = yaml_keys(head)
    return bool(keys & _KEYS) and bool(keys & {"version", "aggregate_rate", "category"})


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Draw the requests."""
    spec = spec_document(reading, Spec)
    if spec.servegen_data is not None:
        raise reading.error("servegen_data: the load is in ServeGen's files; open their folder")
    found = senders(spec, str(reading.path))
    for sender in found:
        check_arrivals(sender, str(reading.path))
    asked = reading.options.sessions
    most = spec.num_requests or None
    waiting = any(sender.concurrency for sender in found)
    ends = spec.horizon or all(time.end_s < np.inf for sender in found for time in sender.active)
    if asked is not None and not waiting:
        most = None
    elif most is None and (waiting or not ends):
        most = _DEFAULT_REQUESTS
        reading.note(f"the file does not say how many requests: {most:,} are drawn")
    reading.note(f"requests are drawn with seed {reading.options.seed}")
    if any(sender.turns for sender in found):
        reading.note("later rounds' times are the earliest there could be: gaps are what counts")
    if waiting:
        reading.note(f"clients with concurrency wait for answers: their times assume {_ANSWER_S:g} s each")
    rng = np.random.default_rng(reading.options.seed)
    starts = islice(heapq.merge(*(_starts(sender, rng) for sender in found), key=lambda start: start.at_s), asked)
    end_s = spec.horizon / 1e6 if spec.horizon else np.inf
    yield from islice(numbered(_until(_in_time_order(_enough(starts, most)), end_s)), most)


def _enough(starts: Iterator[Start], most: int | None) -> Iterator[Start]:
    """Pass on sessions until they have so many requests together: BLIS counts those of a session as it begins."""
    begun = 0
    for start in starts:
        yield start
        begun += start.rounds
        if most is not None and begun >= most:
            return


def _until(requests: Iterator[TraceRequest], end_s: float) -> Iterator[TraceRequest]:
    for request in requests:
        if (request.at_s or 0.0) >= end_s:
            return
        yield request


def _in_time_order(starts: Iterator[Start]) -> Iterator[TraceRequest]:
    """Yield the requests of all sessions by time: sessions that have begun wait in a heap for their next request."""
    begun: list[tuple[float, int, TraceRequest, Iterator[TraceRequest]]] = []
    order = count()

    def push(requests: Iterator[TraceRequest]) -> None:
        request = next(requests, None)
        if request is not None:
            heapq.heappush(begun, (request.at_s or 0.0, next(order), request, requests))

    for start in starts:
        while begun and begun[0][0] <= start.at_s:
            _, _, request, requests = heapq.heappop(begun)
            yield request
            push(requests)
        push(start.requests)
    while begun:
        _, _, request, requests = heapq.heappop(begun)
        yield request
        push(requests)


def _starts(sender: Sender, rng: np.random.Generator) -> Iterator[Start]:
    """Yield when sessions of a population begin, how many requests they have, and the requests."""
    if sender.concurrency:
        step_s = sender.think_s + _ANSWER_S
        for user in range(sender.concurrency):
            requests = _apart(
                f"{sender.name} user {user}", _prefix(sender, user), sender.active[0], sender.think_s, rng
            )
            yield Start(0.0, 0, _timed(requests, 0.0, step_s))
        return
    for number, (at_s, member, active) in enumerate(arrivals(sender, rng)):
        name, prefix, turns = f"{sender.name} {number}", _prefix(sender, member), sender.turns
        if turns is None:
            alone = islice(_apart(name, prefix, active, 0.0, rng), 1)
            yield Start(at_s, 1, (request._replace(at_s=at_s, session=None) for request in alone))
            continue
        think_s = turns.think_time_us / 1e6
        if turns.context_growth == "accumulate":
            requests = session_requests(name, prefix, 0, _rounds(active, turns.max_rounds, think_s, rng))
        else:
            requests = islice(_apart(name, prefix, active, think_s, rng), turns.max_rounds)
        yield Start(at_s, turns.max_rounds, _timed(requests, at_s, think_s))


def _rounds(active: Active, rounds: int, think_s: float, rng: np.random.Generator) -> Iterator[DrawnTurn]:
    for _ in range(rounds):
        yield DrawnTurn(active.input_tokens(rng), active.output_tokens(rng), think_s)


def _timed(requests: Iterator[TraceRequest], start_s: float, step_s: float) -> Iterator[TraceRequest]:
    for index, request in enumerate(requests):
        yield request._replace(at_s=start_s + index * step_s)


def _apart(
    name: str, prefix: tuple[Span, ...], active: Active, think_s: float, rng: np.random.Generator
) -> Iterator[TraceRequest]:
    """Yield requests for ever that have nothing in common but their prefix."""
    for index in count():
        new_tokens, output_tokens = active.input_tokens(rng), active.output_tokens(rng)
        line = ("request", name, index)
        content = joined([*prefix, Span(line, 0, new_tokens)])
        answer = Span(line, new_tokens, output_tokens)
        request = TraceRequest(0, total_tokens(content), output_tokens, 0.0, name, content, answer=answer)
        yield request._replace(gap_s=think_s) if index else request


def _prefix(sender: Sender, member: int) -> tuple[Span, ...]:
    if sender.prefix is None:
        return ()
    group = sender.prefix
    if sender.members_per_prefix is not None:
        group = f"{group}-{member // sender.members_per_prefix}"
    return (Span(("prefix", group), 0, sender.prefix_tokens),)


FORMAT = Format("blis", "BLIS workload YAML", recognises, read, drawn=True)
