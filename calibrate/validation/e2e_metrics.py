"""The metrics of a load level, the same for measured and simulated requests. Seconds; percentiles by interpolation.

Requests that failed or were given up count in `failed` and nowhere else. Throughput is what was answered, over the
time from the first send to the last answer.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import Outcome, Run
from sim.results.token_gaps import token_gaps
from sim.results.turn_table import OUTCOMES, table_of

PERCENTILES = (50, 90, 95, 99)
Floats = NDArray[np.float64]


def latency_metrics(
    sent_s: Floats, ttft_s: Floats, e2e_s: Floats, output_tokens: NDArray[np.integer], ok: NDArray[np.bool_]
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
    everybody = table_of(run.records)
    asked = everybody.turns
    table = everybody
    if trimmed:
        table = everybody.where((begin_s <= asked["last_token_s"]) & (asked["last_token_s"] <= end_s))
    turns, done = table.turns, table.completed()
    metrics = latency_metrics(
        turns["arrival_s"],
        turns["first_token_s"] - turns["arrival_s"],
        turns["last_token_s"] - turns["arrival_s"],
        turns["output_tokens"],
        turns["outcome"] == OUTCOMES.index(Outcome.COMPLETED),
    )
    gaps = token_gaps(done)
    if len(gaps.seconds):
        metrics |= _named("itl", gaps.mean(), gaps.percentiles(PERCENTILES))
    if trimmed and end_s > begin_s:
        metrics["requests_per_s"] = len(done.turns) / (end_s - begin_s)
        metrics["output_tokens_per_s"] = int(done.turns["output_tokens"].sum(dtype=np.int64)) / (end_s - begin_s)
    prompt_tokens, hit_tokens = (int(asked[name].sum(dtype=np.int64)) for name in ("prompt_tokens", "hit_tokens"))
    metrics["prefix_hit_rate"] = hit_tokens / prompt_tokens if prompt_tokens else math.nan
    metrics["preemptions"] = float(asked["preemptions"].sum())
    metrics["kv_usage_peak"] = run.log.kv_usage_peak
    metrics["running_peak"] = float(run.log.running_peak)
    return metrics


def spread(name: str, values: Floats) -> dict[str, float]:
    """Return `<name>_mean_s` and percentiles; nothing of no values."""
    if not len(values):
        return {}
    return _named(name, float(values.mean()), np.percentile(values, PERCENTILES).tolist())


def _named(name: str, mean_s: float, percentiles_s: list[float]) -> dict[str, float]:
    named = {f"{name}_p{share}_s": value for share, value in zip(PERCENTILES, percentiles_s, strict=True)}
    return {f"{name}_mean_s": mean_s} | named
