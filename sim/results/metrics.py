"""The metrics of one run, each defined once. Seconds; percentiles by linear interpolation.

    TTFT  arrival at the client -> first token      TPOT  (E2E - TTFT) / (output tokens - 1)
    ITL   gap between two tokens of a request       E2E   arrival -> last token

Percentiles are over completed turns; unfinished and refused ones are counted beside them, since a system that
never answers has no bad latencies. The prefix hit rate is vLLM's: cached prompt tokens over queried prompt
tokens at first admission.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.engine.record import Outcome, Run, TurnRecord

PERCENTILES = (50, 90, 95, 99)
OVERDUE_SHARE = 0.01  # a p99 may leave one turn in a hundred out
COUNTS = ("requests", "preemptions", "reprefilled_tokens", "unfinished", "overdue", "refused", "evicted_blocks")


@dataclass(frozen=True, slots=True)
class Slo:
    """What users are promised; None leaves a side open."""

    ttft_p99_s: float | None = None
    tpot_p99_s: float | None = None

    def met_by_turn(self, ttft_s: float, tpot_s: float) -> bool:
        """Whether one turn stays within the limits (for goodput)."""
        slow_start = self.ttft_p99_s is not None and ttft_s > self.ttft_p99_s
        slow_tokens = self.tpot_p99_s is not None and tpot_s > self.tpot_p99_s
        return not (slow_start or slow_tokens)

    def met_by_point(self, point: dict[str, float]) -> bool:
        """Whether a load point's percentiles stay within the limits; neither silence nor 1 % overdue turns do."""
        if point["refused"] or math.isnan(point["ttft_p99_s"]):
            return False
        if point["overdue"] > OVERDUE_SHARE * (point["requests"] + point["overdue"]):
            return False
        sides = ((self.ttft_p99_s, "ttft_p99_s"), (self.tpot_p99_s, "tpot_p99_s"))
        return all(limit is None or not point[key] > limit for limit, key in sides)  # one-token answers have no TPOT


def run_metrics(run: Run, population: str, slo: Slo) -> dict[str, float]:
    """Return the metrics of one population's turns in one run."""
    turns = [record for record in run.records if record.population == population]
    done = [record for record in turns if record.outcome is Outcome.COMPLETED]
    ttft = [record.ttft_s for record in done]
    tpot = [_tpot_s(record) for record in done]
    good = sum(slo.met_by_turn(t, p) for t, p in zip(ttft, tpot, strict=True))
    admitted = [record for record in turns if not math.isnan(record.scheduled_s)]
    duration_s = run.duration_s or math.nan
    metrics: dict[str, float] = {"requests": len(done)}
    metrics |= _percentiles("ttft", ttft)
    metrics |= _percentiles("tpot", [value for value in tpot if not math.isnan(value)])
    metrics |= _percentiles("itl", _gaps(done))
    metrics |= _percentiles("e2e", [record.e2e_s for record in done])
    metrics |= {
        "requests_per_s": len(done) / duration_s,
        "output_tokens_per_s": sum(record.output_tokens for record in done) / duration_s,
        "goodput_requests_per_s": good / duration_s,
        "prefix_hit_rate": _share(
            sum(record.hit_tokens for record in admitted), sum(record.prompt_tokens for record in admitted)
        ),
        "preemptions": sum(record.preemptions for record in turns),
        "reprefilled_tokens": sum(record.reprefilled_tokens for record in turns),
        "kv_usage_peak": run.log.kv_usage_peak,
        "kv_usage_mean": run.log.kv_usage_mean,
        "evicted_blocks": run.log.evicted_blocks,
        "running_peak": run.log.running_peak,
        "engine_busy": _share(run.log.busy_s, run.duration_s),
        "overdue": sum(_is_overdue(record, run.duration_s, slo) for record in turns),
        "unfinished": sum(record.outcome is Outcome.UNFINISHED for record in turns),
        "refused": sum(record.outcome is Outcome.REFUSED for record in turns),
        "duration_s": run.duration_s,
    }
    return metrics


def _is_overdue(record: TurnRecord, now_s: float, slo: Slo) -> bool:
    """Whether an unfinished turn has waited for its first token longer than promised when the run stops."""
    if record.outcome is not Outcome.UNFINISHED or slo.ttft_p99_s is None:
        return False
    until_s = record.token_times_s[0] if record.token_times_s else now_s
    return until_s - record.arrival_s > slo.ttft_p99_s


def _tpot_s(record: TurnRecord) -> float:
    tokens = len(record.token_times_s) - 1
    return (record.e2e_s - record.ttft_s) / tokens if tokens else math.nan


def _gaps(records: Iterable[TurnRecord]) -> Sequence[float]:
    gaps = [np.diff(record.token_times_s) for record in records if len(record.token_times_s) > 1]
    return np.concatenate(gaps).tolist() if gaps else []


def _percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    keys = [f"{name}_p{percentile}_s" for percentile in PERCENTILES]
    if not values:
        return dict.fromkeys(keys, math.nan)
    return dict(zip(keys, np.percentile(values, PERCENTILES).tolist(), strict=True))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
