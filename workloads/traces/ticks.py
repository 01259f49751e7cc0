"""Clocks that tick: traces whose arrival times are rounded to seconds, so that many requests seem to come at once.

Mooncake's conversations are stamped every 3 s, ten requests to a stamp. Sent as they stand, a burst arrives every
tick and the p99 is of that; `spread` moves each request by a random part of the tick.
"""

import heapq
from collections.abc import Iterable, Iterator

import numpy as np

from workloads.traces.request import TraceRequest

_REQUESTS_A_STAMP = 2.0  # on average; fewer may be chance
_SMALLEST_S = 0.5  # finer ticks make no bursts that matter
_OFF = 0.02  # of a tick: stamps are rounded themselves
_GAPS_KEPT = 10_000


class TickFinder:
    """Looks at the times of a trace as they pass."""

    def __init__(self) -> None:
        self._requests = self._stamps = 0
        self._last_s = -1.0
        self._gaps_s: list[float] = []

    def see(self, at_s: float) -> None:
        """Take note of an arrival; they ascend."""
        self._requests += 1
        if at_s == self._last_s:
            return
        if self._stamps and len(self._gaps_s) < _GAPS_KEPT:
            self._gaps_s.append(at_s - self._last_s)
        self._stamps += 1
        self._last_s = at_s

    @property
    def requests_a_stamp(self) -> float:
        """How many requests share a time, on average."""
        return self._requests / max(self._stamps, 1)

    @property
    def tick_s(self) -> float | None:
        """The tick, or None if times are as fine as they should be."""
        if len(self._gaps_s) < 2 or self.requests_a_stamp < _REQUESTS_A_STAMP:
            return None
        gaps_s = np.array(self._gaps_s)
        tick_s = float(np.median(gaps_s))
        if tick_s < _SMALLEST_S:
            return None
        ticks = gaps_s / tick_s
        return round(tick_s, 3) if bool(np.all(np.abs(ticks - np.round(ticks)) <= _OFF)) else None


def spread(
    requests: Iterable[tuple[float, TraceRequest]], jitter_s: float, rng: np.random.Generator
) -> Iterator[tuple[float, TraceRequest]]:
    """Yield each request up to `jitter_s` later, uniformly, by ascending time: only those within it are held."""
    waiting: list[tuple[float, int, TraceRequest]] = []
    for number, (at_s, request) in enumerate(requests):
        while waiting and waiting[0][0] <= at_s:
            due_s, _, due = heapq.heappop(waiting)
            yield due_s, due
        heapq.heappush(waiting, (at_s + jitter_s * rng.random(), number, request))
    while waiting:
        due_s, _, due = heapq.heappop(waiting)
        yield due_s, due
