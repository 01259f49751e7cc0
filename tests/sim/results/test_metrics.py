"""Metrics of a run of four turns, worked out by hand."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_times import brought_at
from turn_records import turn_record

from sim.engine.record import EngineLog, Outcome, Run, TurnRecord
from sim.json_output import _clean
from sim.results.metrics import Slo, run_metrics


def turn(arrival_s: float, tokens_s: list[float], *, hit: int = 0, population: str = "session") -> TurnRecord:
    """Return a completed turn of 100 prompt tokens whose tokens came at these times."""
    return turn_record(
        population,
        0,
        "session 0.0",
        0,
        100,
        len(tokens_s),
        arrival_s,
        queued_s=arrival_s,
        scheduled_s=arrival_s,
        first_token_s=tokens_s[0],
        last_token_s=tokens_s[-1],
        hit_tokens=hit,
        outcome=Outcome.COMPLETED,
        **brought_at(tokens_s),
    )


def cut_off(*, admitted: bool) -> TurnRecord:
    """Return a turn that the end of the run cut off, waiting or running."""
    record = turn(9.0, [math.nan], hit=80 if admitted else 0)
    record.scheduled_s = 9.5 if admitted else math.nan
    record.outcome, record.token_steps = Outcome.UNFINISHED, ()
    return record


@pytest.fixture
def run() -> Run:
    """Return three completed turns, one cut off while running, one cut off in the queue, one refused; 10 s."""
    refused = cut_off(admitted=False)
    refused.outcome = Outcome.REFUSED
    background = turn(0.0, [9.0], population="background")
    records = [
        turn(0.0, [1.0, 1.5, 2.5]),
        turn(1.0, [3.0, 3.25, 3.5], hit=64),
        turn(2.0, [6.0], hit=96),
        cut_off(admitted=True),
        cut_off(admitted=False),
        refused,
        background,
    ]
    records[1].preemptions, records[1].reprefilled_tokens = 2, 32
    log = EngineLog(
        steps=7,
        busy_s=8.0,
        computed_tokens=300,
        kv_usage_peak=0.75,
        kv_usage_seconds=4.0,
        evicted_blocks=5,
        running_peak=3,
    )
    return Run(records, log, 10.0, 100)


def test_latencies_are_those_defined_in_the_glossary(run: Run) -> None:
    """TTFT 1, 2, 4; TPOT 1.5 / 2 and 0.5 / 2, none for one token; gaps 0.5, 1, 0.25, 0.25; E2E 2.5, 2.5, 4."""
    metrics = run_metrics(run, "session", Slo())
    assert metrics["ttft_p50_s"] == 2.0
    assert metrics["ttft_p95_s"] == pytest.approx(np.percentile([1, 2, 4], 95))
    assert metrics["ttft_p99_s"] == pytest.approx(2 + 0.98 * 2)  # linear interpolation
    assert metrics["tpot_p50_s"] == pytest.approx((0.75 + 0.25) / 2)
    assert metrics["itl_p50_s"] == pytest.approx(0.375)
    assert metrics["itl_p99_s"] == pytest.approx(np.percentile([0.25, 0.25, 0.5, 1.0], 99))
    assert metrics["e2e_p50_s"] == 2.5


def test_rates_and_counts_are_over_the_run(run: Run) -> None:
    """Three completed turns of seven tokens in 10 s; what was not answered is counted beside them."""
    metrics = run_metrics(run, "session", Slo())
    assert (metrics["requests"], metrics["unfinished"], metrics["refused"]) == (3, 2, 1)
    assert metrics["requests_per_s"] == pytest.approx(0.3)
    assert metrics["output_tokens_per_s"] == pytest.approx(0.7)
    assert (metrics["preemptions"], metrics["reprefilled_tokens"]) == (2, 32)
    assert (metrics["kv_usage_peak"], metrics["kv_usage_mean"], metrics["evicted_blocks"]) == (0.75, 0.5, 5)
    assert (metrics["engine_busy"], metrics["running_peak"], metrics["duration_s"]) == (0.8, 3, 10.0)


def test_hit_rate_is_cached_over_queried_prompt_tokens_at_first_admission(run: Run) -> None:
    """0 + 64 + 96 and the 80 of a turn that was admitted but not finished, of 400; those in the queue ask nothing."""
    assert run_metrics(run, "session", Slo())["prefix_hit_rate"] == pytest.approx(240 / 400)


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        (Slo(), 3),
        (Slo(ttft_p99_s=2.0), 2),
        (Slo(ttft_p99_s=0.9), 0),
        (Slo(tpot_p99_s=0.5), 2),  # a turn of one token has no TPOT to fail
        (Slo(ttft_p99_s=1.5, tpot_p99_s=0.5), 0),
        (Slo(ttft_p99_s=2.0, tpot_p99_s=0.5), 1),
    ],
)
def test_goodput_counts_turns_within_every_limit(run: Run, slo: Slo, good: int) -> None:
    """Over the same 10 seconds."""
    assert run_metrics(run, "session", slo)["goodput_requests_per_s"] == pytest.approx(good / 10)


def test_a_population_that_completed_nothing_has_no_latencies_but_counts() -> None:
    """NaN in Python, null in JSON; throughput is zero and not unknown."""
    metrics = run_metrics(Run([cut_off(admitted=False)], EngineLog(), 10.0, 100), "session", Slo())
    assert all(math.isnan(metrics[f"{name}_p99_s"]) for name in ("ttft", "tpot", "itl", "e2e"))
    assert math.isnan(metrics["prefix_hit_rate"])
    assert (metrics["requests"], metrics["unfinished"], metrics["requests_per_s"]) == (0, 1, 0.0)
    text = json.dumps(_clean(metrics), allow_nan=False)
    assert json.loads(text)["ttft_p99_s"] is None


@pytest.mark.parametrize(
    ("point", "met"),
    [
        ({"ttft_p99_s": 2.0, "tpot_p99_s": 9.0, "refused": 0, "overdue": 0, "requests": 99}, True),
        ({"ttft_p99_s": 2.0, "tpot_p99_s": 9.0, "refused": 0, "overdue": 1, "requests": 99}, True),
        ({"ttft_p99_s": 2.0, "tpot_p99_s": 9.0, "refused": 0, "overdue": 2, "requests": 99}, False),
        ({"ttft_p99_s": 2.1, "tpot_p99_s": 0.0, "refused": 0, "overdue": 0, "requests": 99}, False),
        ({"ttft_p99_s": 1.0, "tpot_p99_s": 0.0, "refused": 1, "overdue": 0, "requests": 99}, False),
        ({"ttft_p99_s": math.nan, "tpot_p99_s": math.nan, "refused": 0, "overdue": 0, "requests": 0}, False),
    ],
)
def test_a_point_keeps_a_promise_only_if_everybody_was_answered_in_time(point: dict[str, float], *, met: bool) -> None:
    """At the limit is within it; a refusal, silence, or over 1 % of turns overdue when the run stops is not."""
    assert Slo(ttft_p99_s=2.0).met_by_point(point) is met


times = st.lists(st.floats(0.001, 100), min_size=1, max_size=8)


@given(st.lists(times, min_size=1, max_size=30))
def test_percentiles_ascend_and_lie_within_what_was_seen(gaps: list[list[float]]) -> None:
    """p50 <= p90 <= p95 <= p99 <= the worst, for TTFT, TPOT, ITL and E2E."""
    records = [turn(0.0, np.cumsum(one).tolist()) for one in gaps]
    metrics = run_metrics(Run(records, EngineLog(), 1e4, 100), "session", Slo())
    for name in ("ttft", "tpot", "itl", "e2e"):
        values = [metrics[f"{name}_p{p}_s"] for p in (50, 90, 95, 99)]
        assert values == sorted(values) or math.isnan(values[0])
    assert metrics["ttft_p99_s"] <= max(record.ttft_s for record in records) * (1 + 1e-12)
    assert metrics["e2e_p50_s"] >= min(record.e2e_s for record in records) * (1 - 1e-12)
