"""Below, at or beyond the knee: where a load level stands, decided mostly by what was measured.

    beyond  over 1 % of the requests failed, or fewer than 95 % of the offered requests a second were answered, or
            the median TTFT is more than 3 times that of the same deployment's lowest load; where this is the lowest
            itself: if the TTFT is more than half of the end-to-end time
    at      not beyond, but that TTFT more than doubled, or the KV cache filled or all seats (max_num_seqs) were
            taken, in the measurement or, where it does not say, in the simulation
    below   the rest

An open loop of n requests offers n / (span of the arrivals + mean end-to-end time) a second: the last answers are
late without any queue. Where a source names only the mean TTFT, that stands for the median.
"""

import math
from collections.abc import Iterable, Mapping

from calibrate.validation.e2e_experiments import Experiment, LoadPoint

BELOW, AT, BEYOND = "below", "at", "beyond"
REGIMES = (BELOW, AT, BEYOND)

_ANSWERED_SHARE = 0.95
_FAILED_SHARE = 0.01
_BEYOND_TTFT, _AT_TTFT = 3.0, 2.0
_WAITING_SHARE = 0.5
_FULL = 0.99


def typical_ttft_s(measured: Mapping[str, float]) -> float | None:
    """Return the median TTFT, or the mean where there is no median."""
    return measured.get("ttft_p50_s", measured.get("ttft_mean_s"))


def regime(
    measured: Mapping[str, float],
    predicted: Mapping[str, float],
    *,
    requests: int | None,
    span_s: float | None,
    lowest_ttft_s: float | None,
    seats: int,
) -> str:
    """Return the regime of a load level; see the module for the rule.

    `requests` over `span_s` seconds were offered (None: a closed loop), `lowest_ttft_s` is the deployment's at its
    lowest load, `seats` its max_num_seqs.
    """
    failed = measured.get("failed", 0.0)
    if failed > _FAILED_SHARE * (failed + measured.get("requests", requests or 0)):
        return BEYOND
    e2e_s, rate = measured.get("e2e_mean_s", measured.get("e2e_p50_s")), measured.get("requests_per_s")
    if requests and span_s is not None and e2e_s is not None and rate is not None:
        offered = requests / (span_s + e2e_s)
        if rate < _ANSWERED_SHARE * offered:
            return BEYOND
    ttft_s = typical_ttft_s(measured)
    growth = ttft_s / lowest_ttft_s if ttft_s is not None and lowest_ttft_s else 1.0
    waits = growth <= 1.0 and ttft_s is not None and e2e_s is not None and ttft_s > _WAITING_SHARE * e2e_s
    if growth > _BEYOND_TTFT or waits:
        return BEYOND
    either = {**predicted, **measured}
    full = either.get("kv_usage_peak", 0.0) >= _FULL or either.get("running_peak", 0.0) >= seats
    return AT if growth > _AT_TTFT or full else BELOW


def deployment_key(experiment: Experiment, point: LoadPoint) -> tuple[object, ...]:
    """Return what loads whose TTFTs are compared have in common: the deployment, and the prompt to half an octave."""
    tokens = point.input_tokens or experiment.input_tokens
    length = None if not tokens else round(2 * math.log2(tokens))
    return experiment.source, experiment.gpu, experiment.model, experiment.tensor_parallel, length


def lowest_ttfts_s(experiments: Iterable[Experiment]) -> dict[tuple[object, ...], float]:
    """Return the least typical TTFT measured with each deployment."""
    lowest: dict[tuple[object, ...], float] = {}
    for experiment in experiments:
        for point in experiment.points:
            ttft_s = typical_ttft_s(point.measured)
            if ttft_s:
                key = deployment_key(experiment, point)
                lowest[key] = min(ttft_s, lowest.get(key, math.inf))
    return lowest
