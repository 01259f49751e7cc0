"""The metrics of a load level, the same for measured and simulated requests. Seconds; percentiles by interpolation.

Requests that failed or were given up count in `failed` and nowhere else. Throughput is what was answered, over the
time from the first send to the last answer.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import Outcome, Run, TurnRecord

PERCENTILES = (50, 90, 95, 99)
Floats = NDArray[np.float64]


def latency_metrics(
    sent_s: Floats, ttft_s: Floats, e2e_s: Floats, output_tokens: NDArray[np.int64], ok: NDArray[np.bool_]
) -> dict[str, float]:
    """Return the metrics of requests, one array entry each."""
    sent, ttft, e2e, tokens = sent_s[ok], ttft_s[ok], e2e_s[ok], output_tokens[ok]
    several = tokens > 1
    tpot = (e2e - ttft)[several] / (tokens[several] - 1)
    metrics = {"requests": float(len(sent)), "failed": float(len(ok) - len(sent))}
    metrics |= spread("ttft", ttft) | spread("tpot", tpot) | spread("e2e", e2e)
    if len(sent):
        took_s = float((sent + e2e).max() - sent_s.min())
        if took_s > 0:
            metrics |= {"requests_per_s": len(sent) / took_s, "output_tokens_per_s": int(tokens.sum()) / took_s}
    return metrics


def run_metrics(run: Run, *, trimmed: float = 0.0) -> dict[str, float]:
    """Return the metrics of a simulated stage.

    With `trimmed`, only what was answered between that share of the run at its beginning and at its end counts.
    """
    begin_s, end_s = trimmed * run.duration_s, (1 - trimmed) * run.duration_s
    records = run.records
    if trimmed:
        records = [record for record in records if begin_s <= record.last_token_s <= end_s]
    done = [record for record in records if record.outcome is Outcome.COMPLETED]
    metrics = latency_metrics(
        np.array([record.arrival_s for record in records]),
        np.array([record.ttft_s for record in records]),
        np.array([record.e2e_s for record in records]),
        np.array([record.output_tokens for record in records], np.int64),
        np.array([record.outcome is Outcome.COMPLETED for record in records], bool),
    )
    metrics |= spread("itl", _gaps_s(done))
    if trimmed and end_s > begin_s:
        metrics["requests_per_s"] = len(done) / (end_s - begin_s)
        metrics["output_tokens_per_s"] = sum(record.output_tokens for record in done) / (end_s - begin_s)
    asked = sum(record.prompt_tokens for record in run.records)
    metrics["prefix_hit_rate"] = sum(record.hit_tokens for record in run.records) / asked if asked else math.nan
    metrics["preemptions"] = float(sum(record.preemptions for record in run.records))
    metrics["kv_usage_peak"] = run.log.kv_usage_peak
    metrics["running_peak"] = float(run.log.running_peak)
    return metrics


def spread(name: str, values: Floats) -> dict[str, float]:
    """Return `<name>_mean_s` and percentiles; nothing of no values."""
    if not len(values):
        return {}
    percentiles = np.percentile(values, PERCENTILES).tolist()
    return {f"{name}_mean_s": float(values.mean())} | {
        f"{name}_p{share}_s": value for share, value in zip(PERCENTILES, percentiles, strict=True)
    }


def _gaps_s(records: list[TurnRecord]) -> Floats:
    gaps = [np.diff(record.token_times_s) for record in records if len(record.token_times_s) > 1]
    return np.concatenate(gaps) if gaps else np.empty(0)
