"""When the members of a BLIS population begin: gaps by process, within the times they are active."""

import heapq
import math
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from workloads.errors import WorkloadError
from workloads.traces.blis_populations import Active, Sender
from workloads.traces.blis_spec import Arrival
from workloads.traces.bounded import check_kind

Gap = Callable[[np.random.Generator], float]
PROCESSES = ("poisson", "gamma", "weibull", "constant")
_MOST_MEMBERS = 100_000  # each on its own


def check_arrivals(sender: Sender, where: str) -> None:
    """Raise WorkloadError for a process nobody knows, or too many members that are not one Poisson process."""
    for time in sender.active:
        check_kind(f"{where}: arrival.process of {sender.name[:40]!r}", time.arrival.process, dict.fromkeys(PROCESSES))
    if not _is_one_process(sender) and sender.members > _MOST_MEMBERS:
        raise WorkloadError(
            f"{where}: {sender.members:,} members of {sender.name[:40]!r} are more than {_MOST_MEMBERS:,}"
        )


def arrivals(sender: Sender, rng: np.random.Generator) -> Iterator[tuple[float, int, Active]]:
    """Yield time, member and what is active, ascending; many Poisson processes are one."""
    if _is_one_process(sender):
        for time in sender.active:
            for at_s in _within(time, time.rate, rng):
                yield at_s, int(rng.integers(sender.members)), time
        return
    each = (_of_member(sender, member, rng) for member in range(sender.members))
    yield from heapq.merge(*each, key=lambda one: one[0])


def _is_one_process(sender: Sender) -> bool:
    once = sender.turns is not None and sender.turns.single_session
    return not once and (sender.members == 1 or all(time.arrival.process == "poisson" for time in sender.active))


def _of_member(sender: Sender, member: int, rng: np.random.Generator) -> Iterator[tuple[float, int, Active]]:
    times = chain.from_iterable(
        ((at_s, member, time) for at_s in _within(time, time.rate / sender.members, rng)) for time in sender.active
    )
    for one in times:
        yield one
        if sender.turns is not None and sender.turns.single_session:
            return


def _within(time: Active, rate: float, rng: np.random.Generator) -> Iterator[float]:
    gap = _gap(time.arrival, rate)
    at_s = time.start_s + gap(rng)
    while at_s < time.end_s:
        yield at_s
        at_s += max(gap(rng), 1e-6)  # BLIS counts whole microseconds, from one on


def _gap(arrival: Arrival, rate: float) -> Gap:
    """Return a function that draws a gap; shape and scale, in microseconds, where both are given."""
    mean_s, cv = 1 / rate, arrival.cv or 1.0
    if arrival.process == "constant":
        return lambda _rng: mean_s
    if arrival.process == "poisson":
        return lambda rng: float(rng.exponential(mean_s))
    given = arrival.shape is not None and arrival.scale is not None
    if arrival.process == "gamma":
        shape = (arrival.shape or 1.0) if given else cv**-2
        scale_s = (arrival.scale or 0.0) / 1e6 if given else mean_s / shape
        return lambda rng: float(rng.gamma(shape, scale_s))
    shape = (arrival.shape or 1.0) if given else _weibull_shape(cv)
    scale_s = (arrival.scale or 0.0) / 1e6 if given else mean_s / math.gamma(1 + 1 / shape)
    return lambda rng: scale_s * float(rng.weibull(shape))


def _weibull_shape(cv: float) -> float:
    """Return the shape of a Weibull with a coefficient of variation, by bisection."""
    low, high = 0.1, 200.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        spread = math.gamma(1 + 2 / middle) / math.gamma(1 + 1 / middle) ** 2 - 1
        low, high = (middle, high) if spread > cv**2 else (low, middle)
    return low
