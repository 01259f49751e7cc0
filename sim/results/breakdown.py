"""Where a request's time went: its own work, others' work in the same steps, waiting, and the way to the client.

    client sends |link| queued |  queue  | step | step | waits | step ... | first token |  ...  | last token |link|

A step that computes something of a request lasts as long as its whole batch. What the request would take alone is its
own (prefill, prefill again, decode), the rest is interference; so is a step that ran without it while it was admitted.
Queue is the time before its first step, and before the first step after a preemption. Prefill again is what was once
computed and then lost: to a preemption, or evicted from the cache. Everything outside the engine is the link: network,
tokenisation, flushing, a client's pauses after a 503. The parts add up to what the client saw.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import TurnRecord
from sim.steptime.ahead import StepPrices, Stretch
from sim.steptime.batch import BatchShape

Floats = NDArray[np.float64]


class Parts(NamedTuple):
    """Seconds of each part."""

    queue: float = 0.0
    prefill: float = 0.0
    reprefill: float = 0.0
    interference: float = 0.0
    decode: float = 0.0
    link: float = 0.0

    @property
    def total(self) -> float:
        """As the client saw it."""
        return sum(self)

    @property
    def engine(self) -> float:
        """As the engine saw it."""
        return self.total - self.link


class Breakdown(NamedTuple):
    """A request's time to the first token, and to the last."""

    ttft: Parts
    e2e: Parts


class _Event(NamedTuple):
    """Successive steps of one request: a chunk of a prefill, or a stretch with a token a step."""

    first: int
    last: int
    chunk: tuple[int, int] | None = None  # tokens before, tokens
    samples: bool = True  # brings a token a step


class StepTimes(NamedTuple):
    """When each step of an engine started and ended."""

    starts_s: Floats
    ends_s: Floats

    @classmethod
    def of(cls, record: TurnRecord) -> "StepTimes":
        """Read the log of a record's engine."""
        assert record.steps is not None
        ends_s = record.steps.ends().copy()
        return cls(ends_s - record.steps.seconds(), ends_s)


def break_down(record: TurnRecord, times: StepTimes, prices: StepPrices, delivery_s: float) -> Breakdown:
    """Split a completed turn, of a run that kept its chunks."""
    walk = _Walk(record, times, prices)
    first = record.token_steps[0]
    ttft = None
    for event in _events(record, first):
        walk.take(event)
        if event.last == first:
            ttft = walk.parts()
    assert ttft is not None
    link_s = record.queued_s - record.arrival_s + delivery_s
    return Breakdown(ttft._replace(link=link_s), walk.parts()._replace(link=link_s))


class _Walk:
    """Goes through a request's steps in their order."""

    def __init__(self, record: TurnRecord, times: StepTimes, prices: StepPrices) -> None:
        self._record, self._times, self._prices = record, times, prices
        self._at_s = record.queued_s + record.origin_s
        self._queue = self._prefill = self._reprefill = self._interference = self._decode = 0.0
        self._received = 0
        self._extent = record.hit_tokens + record.lost_tokens  # tokens computed at some time
        self._is_first = True

    def parts(self) -> Parts:
        """Return what was gone through so far."""
        return Parts(self._queue, self._prefill, self._reprefill, self._interference, self._decode)

    def take(self, event: _Event) -> None:
        """Add some steps, and the gap before them."""
        starts_s, ends_s = self._times
        gap_s = float(starts_s[event.first - 1]) - self._at_s
        if self._is_first or event.first in self._record.resumed_steps:
            self._queue += gap_s
        else:
            self._interference += gap_s
        self._at_s = float(ends_s[event.last - 1])
        if event.chunk is not None:
            self._take_chunk(event.first, *event.chunk, samples=event.samples)
        else:
            self._take_tokens(event.first, event.last)
        self._is_first = False

    def _take_chunk(self, step: int, before: int, tokens: int, *, samples: bool) -> None:
        record, after = self._record, before + tokens
        scanned = max(0, after - record.prompt_tokens) if record.penalised and samples else 0
        hashed = record.prompt_tokens if self._is_first else 0
        if tokens > 1:
            pairs = tokens * (before + (tokens + 1) / 2)
            shape = BatchShape(tokens, int(samples), pairs, 0, 0, 0.0, True, after)
        else:
            shape = BatchShape(1, int(samples), 0.0, 1, after)
        shape = shape._replace(
            scanned_tokens=scanned, structured_rows=int(record.structured and samples), hashed_tokens=hashed
        )
        took_s = float(self._times.ends_s[step - 1] - self._times.starts_s[step - 1])
        own_s = min(took_s, self._prices.seconds(shape))
        share = min(tokens, max(0, self._extent - before)) / tokens
        self._reprefill += own_s * share
        self._prefill += own_s * (1 - share)
        self._interference += took_s - own_s
        self._extent = max(self._extent, after)
        self._received += samples

    def _take_tokens(self, first: int, last: int) -> None:
        record, count = self._record, last - first + 1
        known = record.prompt_tokens + self._received
        stretch = Stretch(1, known, 0.0, 0.0, math.inf, count)
        stretch.scanned_tokens = self._received if record.penalised else 0
        stretch.penalised_rows = int(record.penalised)
        stretch.structured_rows = int(record.structured)
        alone_s = np.diff(self._prices.ends_s(stretch), prepend=0.0)
        starts_s, ends_s = self._times
        took_s = ends_s[first - 1 : last] - starts_s[first - 1 : last]
        own_s = float(np.minimum(alone_s, took_s).sum())
        self._decode += own_s
        self._interference += float(ends_s[last - 1] - starts_s[first - 1]) - own_s
        self._received += count
        self._extent = max(self._extent, known + count - 1)


def _events(record: TurnRecord, first_token: int) -> Iterator[_Event]:
    """Yield what happened to a request, in order; the step of its first token ends an event."""
    chunks = {step: (before, tokens) for step, before, tokens in record.chunks}
    apart = sorted({*chunks, first_token})
    bare = set(chunks)  # bring no token
    found: list[_Event] = []
    steps = record.token_steps
    for first, last in zip(steps[::2], steps[1::2], strict=True):
        start = first
        for step in apart[bisect_left(apart, first) : bisect_right(apart, last)]:
            if start < step:
                found.append(_Event(start, step - 1))
            found.append(_Event(step, step, chunks.get(step)))
            bare.discard(step)
            start = step + 1
        if start <= last:
            found.append(_Event(start, last))
    found += [_Event(step, step, chunks[step], samples=False) for step in bare]
    yield from sorted(found)
