"""The metrics of one run, each defined once. Seconds; percentiles by linear interpolation.

    TTFT  arrival at the client -> first token      TPOT  (E2E - TTFT) / (output tokens - 1)
    ITL   gap between two tokens of a request       E2E   arrival -> last token

Percentiles are over completed turns; unfinished and refused ones are counted beside them, since a system that
never answers has no bad latencies. The prefix hit rate is vLLM's: cached prompt tokens over queried prompt
tokens at first admission.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import Outcome, Run
from sim.results.token_gaps import token_gaps
from sim.results.turn_table import OUTCOMES, Rows, TurnTable, table_of

PERCENTILES = (50, 90, 95, 99)
OVERDUE_SHARE = 0.01  # a p99 may leave one turn in a hundred out
NOT_ANSWERED = ("rejected", "shed", "lost")  # turns that an engine under pressure gave no answer, by outcome
OF_ENGINE = ("retries", "shed_of_all", "crashes")  # of all sessions, background ones too
COUNTS = (
    *("requests", "preemptions", "reprefilled_tokens", "unfinished", "overdue", "refused", "evicted_blocks"),
    *NOT_ANSWERED,
    *OF_ENGINE,
)


@dataclass(frozen=True, slots=True)
class Slo:
    """What users are promised; None leaves a side open."""

    ttft_p99_s: float | None = None
    tpot_p99_s: float | None = None

    def met_by_turns(self, ttft_s: NDArray[np.float64], tpot_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each turn stays within the limits (for goodput); a TPOT of NaN does."""
        met = np.ones(len(ttft_s), bool)
        for limit_s, seconds in ((self.ttft_p99_s, ttft_s), (self.tpot_p99_s, tpot_s)):
            if limit_s is not None:
                met &= ~(seconds > limit_s)
        return met

    def met_by_point(self, point: dict[str, float]) -> bool:
        """Whether a load point's percentiles stay within the limits; neither silence nor 1 % overdue turns do."""
        if point["refused"] or math.isnan(point["ttft_p99_s"]):
            return False
        late = point["overdue"] + sum(point.get(name, 0.0) for name in NOT_ANSWERED)
        if late > OVERDUE_SHARE * (point["requests"] + late):
            return False
        sides = ((self.ttft_p99_s, "ttft_p99_s"), (self.tpot_p99_s, "tpot_p99_s"))
        return all(limit is None or not point[key] > limit for limit, key in sides)  # one-token answers have no TPOT


def run_metrics(run: Run, population: str, slo: Slo) -> dict[str, float]:
    """Return the metrics of one population's turns in one run."""
    return table_metrics(table_of(run.records), run, population, slo)


def table_metrics(table: TurnTable, run: Run, population: str, slo: Slo) -> dict[str, float]:
    """Return the metrics of one population's turns in a table; of the run only its totals are read."""
    mine = table.of(population)
    turns, completed = mine.turns, mine.completed()
    done, further = completed.turns, completed.received_tokens() - 1
    ttft, e2e = done["first_token_s"] - done["arrival_s"], done["last_token_s"] - done["arrival_s"]
    tpot = np.full(len(done), math.nan)
    np.divide(e2e - ttft, further, out=tpot, where=further > 0)
    asked = ~np.isnan(turns["scheduled_s"])
    duration_s = run.duration_s or math.nan
    metrics: dict[str, float] = {"requests": len(done)}
    metrics |= _percentiles("ttft", ttft)
    metrics |= _percentiles("tpot", tpot[further > 0])
    gaps = token_gaps(completed)
    metrics |= dict(zip(_keys("itl"), gaps.percentiles(PERCENTILES), strict=True)) | {"itl_max_s": gaps.longest()}
    metrics |= _percentiles("e2e", e2e)
    metrics |= {
        "requests_per_s": len(done) / duration_s,
        "output_tokens_per_s": _total(done["output_tokens"]) / duration_s,
        "goodput_requests_per_s": int(np.count_nonzero(slo.met_by_turns(ttft, tpot))) / duration_s,
        "prefix_hit_rate": _share(_total(turns["hit_tokens"][asked]), _total(turns["prompt_tokens"][asked])),
        "preemptions": _total(turns["preemptions"]),
        "reprefilled_tokens": _total(turns["reprefilled_tokens"]),
        "kv_usage_peak": run.log.kv_usage_peak,
        "kv_usage_mean": run.log.kv_usage_mean,
        "evicted_blocks": run.log.evicted_blocks,
        "running_peak": run.log.running_peak,
        "engine_busy": _share(run.log.busy_s, run.duration_s),
        "overdue": _overdue(turns, run.duration_s, slo),
        "unfinished": mine.count(Outcome.UNFINISHED),
        "refused": mine.count(Outcome.REFUSED),
        "duration_s": run.duration_s,
    }
    pressure = run.log.pressure
    if pressure is not None:
        metrics |= {name: mine.count(Outcome(name)) for name in NOT_ANSWERED}
        metrics |= {
            "retries": pressure.retries,
            "shed_of_all": pressure.shed,
            "crashes": pressure.crashes,
            "swapped_blocks": pressure.swapped_blocks,
            "swap_s": pressure.swap_s,
        }
    waste = run.log.waste
    if waste is not None:
        metrics |= {
            "padding_share": waste.padding_share,
            "idle_share": waste.idle_share,
            "internal_fragmentation": waste.internal_fragmentation,
            "external_fragmentation": waste.external_fragmentation,
            "kv_filled_share": waste.filled_share,
        }
    return metrics


def _overdue(turns: Rows, now_s: float, slo: Slo) -> int:
    """Return how many unfinished turns waited for their first token longer than promised when the run stopped."""
    if slo.ttft_p99_s is None:
        return 0
    left = turns[turns["outcome"] == OUTCOMES.index(Outcome.UNFINISHED)]
    until_s = np.where(np.isnan(left["first_seen_s"]), now_s, left["first_seen_s"])
    return int(np.count_nonzero(until_s - left["arrival_s"] > slo.ttft_p99_s))


def _percentiles(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(_keys(name), math.nan)
    return dict(zip(_keys(name), np.percentile(values, PERCENTILES).tolist(), strict=True))


def _keys(name: str) -> list[str]:
    return [f"{name}_p{percentile}_s" for percentile in PERCENTILES]


def _total(values: NDArray[np.int32]) -> int:
    return int(values.sum(dtype=np.int64))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
