"""Clients that pause between an answer and their next request, told by Little's law.

Where a result says how many clients there were, and far fewer requests were in flight on average, they paused the rest
of the time. At its ends a run of n requests has fewer in flight than its N clients, too: that is not taken for a pause.
"""

from collections.abc import Sequence
from heapq import heapreplace

import numpy as np

from calibrate.measured.run import MeasuredRun
from workloads.recorded import RecordedRequest, RecordedSession, RecordedTurn

_ENDS = 1.5  # rounds of N requests that may have all but nobody in flight
_FEWEST_ROUNDS = 3
_BUSY = 0.8  # of the clients in flight on average, though a few answers are much longer than the rest


def mean_pause_s(run: MeasuredRun, count: int) -> float | None:
    """Return what a closed loop's clients paused on average, or None where nothing says that they did."""
    clients, rate = run.load.concurrency, run.metrics.get("requests_per_s")
    e2e_s = run.metrics.get("e2e_mean_s")
    if not clients or not rate or not e2e_s or run.failed or count < _FEWEST_ROUNDS * clients:
        return None
    if rate * e2e_s >= clients * min(_BUSY, 1 - _ENDS * clients / count):
        return None
    return clients / rate - e2e_s


def pausing_clients(
    requests: Sequence[RecordedRequest], clients: int, pause_s: float, e2e_s: float, seed: int
) -> list[RecordedSession]:
    """Return the requests dealt to clients that pause before each, exponentially distributed.

    The next one goes to who is free first if each takes `e2e_s`, so that all end at about the same time.
    """
    pauses_s = np.random.default_rng([seed, 4]).exponential(pause_s, len(requests)).tolist()
    hands: list[list[RecordedTurn]] = [[] for _ in range(min(clients, len(requests)))]
    free = [(0.0, client) for client in range(len(hands))]
    for pause, request in zip(pauses_s, requests, strict=True):
        at_s, client = free[0]
        heapreplace(free, (at_s + pause + e2e_s, client))
        hands[client].append(RecordedTurn(pause, request.prompt))
    sessions = [RecordedSession(hand[0].pause_s, tuple(hand)) for hand in hands]
    return sorted(sessions, key=lambda session: session.at_s)
