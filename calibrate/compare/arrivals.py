"""When a client sends: as many in flight as it keeps, at a rate, or at the times of the list.

Gaps at a rate are gamma distributed with a shape of `burstiness` (1: Poisson, inf: even), stretched so that n requests
take n / rate seconds, both as vLLM's benchmark does it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.compare.lengths import counted
from calibrate.measured.run import MeasuredRun


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When the requests leave at the earliest, and how many may be under way."""

    times_s: Sequence[float]
    most_in_flight: int | None
    drawn: bool  # by a seed
    label: str
    level: float  # the load, in `unit`
    unit: str
    note: str = ""

    @property
    def span_s(self) -> float | None:
        """From the first send to the last of an open loop; None: the answers set the pace."""
        first, last = min(self.times_s), max(self.times_s)
        return last - first if last > first else None


def arrivals_of(run: MeasuredRun, count: int, seed: int) -> Arrivals:
    """Return when `count` requests of a load point leave; those listed are the first that did not fail."""
    load = run.load
    rate = load.rate_per_s if load.rate_per_s and math.isfinite(load.rate_per_s) else None
    times = [request.sent_s for request in counted(run)][:count]
    cap = load.concurrency
    listed = len(times) == count and all(time is not None for time in times)
    if cap is not None and rate is None:
        return Arrivals([0.0] * count, cap, drawn=False, label=f"{cap} in flight", level=cap, unit="in flight")
    if listed and cap is None and load.rate_per_s != math.inf:
        known = sorted(time for time in times if time is not None)
        sent = [time - known[0] for time in known]
        if not sent[-1]:
            return _at_once(count)
        level = rate or count / sent[-1]
        return Arrivals(sent, None, False, f"{level:.4g} req/s", level, "requests/s", "sent at the listed times")
    if rate is not None:
        burstiness = load.burstiness or 1.0
        how = (
            "Poisson" if burstiness == 1 else "even" if math.isinf(burstiness) else f"gamma, burstiness {burstiness:g}"
        )
        label = f"{rate:.4g} req/s" + (f", <= {cap} in flight" if cap is not None else "")
        drawn = _drawn_s(count, rate, burstiness, seed)
        return Arrivals(drawn, cap, not math.isinf(burstiness), label, rate, "requests/s", f"arrivals drawn, {how}")
    served = run.metrics.get("requests_per_s")
    if load.rate_per_s is None and served:
        note = "how it was sent is not stated: Poisson at the rate that was served"
        return Arrivals(
            _drawn_s(count, served, 1.0, seed), None, True, f"{served:.4g} req/s", served, "requests/s", note
        )
    return _at_once(count)


def says_how(run: MeasuredRun) -> bool:
    """Whether a result says anything of how it was sent."""
    load, sent = run.load, counted(run)
    listed = bool(sent) and all(request.sent_s is not None for request in sent)
    return load.concurrency is not None or bool(load.rate_per_s) or listed or bool(run.metrics.get("requests_per_s"))


def _at_once(count: int) -> Arrivals:
    return Arrivals([0.0] * count, None, drawn=False, label=f"{count} at once", level=count, unit="at once")


def _drawn_s(count: int, rate: float, burstiness: float, seed: int) -> list[float]:
    if math.isinf(burstiness):
        return [number / rate for number in range(count)]
    gaps = np.random.default_rng([seed, 1]).gamma(burstiness, 1 / burstiness, size=count)
    times: list[float] = (np.cumsum(gaps) * (count / rate / max(gaps.sum(), 1e-300))).tolist()
    return times
