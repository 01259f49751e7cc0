"""The one definition of each metric, over requests that did not fail: linear percentiles, population deviation.

TPOT is (E2E - TTFT) / (output tokens - 1) of each request of two tokens or more; ITL is every gap of every request.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from calibrate.measured.run import MeasuredRequest

PERCENTILES = (50, 75, 90, 95, 99)


def spread(metric: str, samples_s: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Return `<metric>_<statistic>_s` of samples; empty without any."""
    values = np.asarray(samples_s, dtype=np.float64)
    if not values.size:
        return {}
    found = {f"{metric}_mean_s": float(values.mean()), f"{metric}_std_s": float(values.std())}
    percentiles = np.percentile(values, PERCENTILES)
    return found | {f"{metric}_p{p}_s": float(value) for p, value in zip(PERCENTILES, percentiles, strict=True)}


def metrics_of(requests: Sequence[MeasuredRequest]) -> dict[str, float]:
    """Return the spreads of TTFT, TPOT, ITL and E2E over the requests that did not fail."""
    done = [one for one in requests if not one.failed]
    found = spread("ttft", [one.ttft_s for one in done if one.ttft_s is not None])
    found |= spread("tpot", list(tpots_s(done)))
    found |= spread("itl", [gap for one in done for gap in one.itls_s])
    return found | spread("e2e", [one.e2e_s for one in done if one.e2e_s is not None])


def tpots_s(requests: Iterable[MeasuredRequest]) -> Iterable[float]:
    """Yield the time per output token of each request that has one."""
    for one in requests:
        if one.output_tokens > 1 and one.e2e_s is not None and one.ttft_s is not None and one.e2e_s >= one.ttft_s:
            yield (one.e2e_s - one.ttft_s) / (one.output_tokens - 1)


def rates_of(
    duration_s: float | None, completed: int | None, input_tokens: float | None, output_tokens: float | None
) -> dict[str, float]:
    """Return what was answered over the whole run; empty without a duration."""
    if not duration_s:
        return {}
    both = None if input_tokens is None or output_tokens is None else input_tokens + output_tokens
    amounts = {
        "requests_per_s": completed,
        "input_tokens_per_s": input_tokens,
        "output_tokens_per_s": output_tokens,
        "total_tokens_per_s": both,
    }
    return {name: amount / duration_s for name, amount in amounts.items() if amount is not None}


def differences(ours: dict[str, float], stated: dict[str, float], tolerance: float = 0.02) -> list[str]:
    """Return one note where the requests of a file say other than its own summary."""
    off = [
        f"{name} {ours[name]:.4g} against {value:.4g}"
        for name, value in stated.items()
        if name in ours and abs(ours[name] - value) > tolerance * max(abs(value), 1e-6)
    ]
    if not off:
        return []
    more = f" and {len(off) - 3} more" if len(off) > 3 else ""
    return [f"its requests say otherwise than its own summary: {', '.join(off[:3])}{more}; the requests are taken"]
