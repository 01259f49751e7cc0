"""Below, at or beyond the knee, and why: by the simulation without a KV limit, the offered rate, and the seats.

    beyond  p99 TTFT is over 3 times what an unlimited KV cache gives, or under 95 % of the offered requests a second
            are answered, or a client keeps more in flight, or sends more at once, than the engine has seats
            (max_num_seqs) and they are taken
    at      p99 TTFT is over 1.5 times what an unlimited KV cache gives
    below   the rest

An open loop of n requests offers n / (span of all sends, later turns too, + mean end-to-end time) a second: the last
answers are late without any queue. A measured rate counts where there is one, then the predicted one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from calibrate.compare.load import SentLoad
from calibrate.validation.e2e_regimes import AT, BELOW, BEYOND
from sim.results.knee import KNEE_RATIO

_AT_RATIO = 1.5
_ANSWERED_SHARE = 0.95

Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Regime:
    """Where a load point stands."""

    name: str
    why: str = ""


def regime_of(measured: Metrics, predicted: Metrics, unlimited: Metrics, sent: SentLoad, seats: int) -> Regime:
    """Return the regime of a load point; see the module for the rule."""
    ratio = _ratio(predicted, unlimited)
    if ratio > KNEE_RATIO:
        return Regime(BEYOND, f"KV cache: p99 TTFT x{ratio:.3g} of unlimited KV")
    for metrics, whose in ((measured, "measured"), (predicted, "predicted")):
        offered, rate = _offered(metrics, sent), metrics.get("requests_per_s")
        if offered is not None and rate is not None:
            if rate < _ANSWERED_SHARE * offered:
                return Regime(BEYOND, f"{_asked(sent, offered):.4g} req/s are sent, {rate:.4g} served ({whose})")
            break
    cap = sent.requests if sent.arrivals.unit == "at once" else sent.arrivals.most_in_flight
    if cap is not None and cap > seats and predicted.get("running_peak", 0.0) >= seats:
        return Regime(BEYOND, f"{sent.arrivals.label} for {seats} seats")
    if ratio > _AT_RATIO:
        return Regime(AT, f"KV cache: p99 TTFT x{ratio:.3g} of unlimited KV")
    return Regime(BELOW)


def _ratio(predicted: Metrics, unlimited: Metrics) -> float:
    free_s = unlimited.get("ttft_p99_s", math.nan)
    ratio = predicted.get("ttft_p99_s", math.inf) / free_s if free_s else math.nan
    return 1.0 if math.isnan(ratio) else ratio


def _offered(metrics: Metrics, sent: SentLoad) -> float | None:
    if sent.span_s is None:
        return None
    e2e_s = metrics.get("e2e_mean_s", metrics.get("e2e_p50_s"))
    if e2e_s is None:
        return None
    return sent.requests / (sent.span_s + e2e_s)


def _asked(sent: SentLoad, offered: float) -> float:
    return sent.requests / sent.span_s if sent.span_s else offered
