"""Metrics of load levels, from arrays and from simulated runs."""

import math

import numpy as np
import pytest
from token_times import brought_at
from turn_records import turn_record

from calibrate.validation.e2e_metrics import latency_metrics, run_metrics, spread
from sim.engine.record import EngineLog, Outcome, Run, TurnRecord


def record(sent_s: float, tokens_s: list[float], outcome: Outcome = Outcome.COMPLETED) -> TurnRecord:
    """Return a record whose tokens came at these times."""
    made = turn_record(
        "recorded", 0, "0", 0, 100, len(tokens_s) or 3, sent_s, outcome=outcome, hit_tokens=25, **brought_at(tokens_s)
    )
    if tokens_s:
        made.first_token_s, made.last_token_s = tokens_s[0], tokens_s[-1]
    return made


def run_of(*records: TurnRecord) -> Run:
    """Return a run of 10 s."""
    return Run(list(records), EngineLog(kv_usage_peak=0.5, running_peak=3), 10.0, 100)


def test_metrics_are_worked_out_by_hand() -> None:
    """TTFTs 1 and 3 s, answers of 3 and 2 tokens; the last answer comes 5 s after the first send."""
    found = run_metrics(run_of(record(0.0, [1.0, 1.5, 2.0]), record(1.0, [4.0, 5.0])))
    assert (found["ttft_mean_s"], found["ttft_p50_s"], found["ttft_p90_s"]) == pytest.approx((2.0, 2.0, 2.8))
    assert (found["tpot_mean_s"], found["e2e_mean_s"]) == pytest.approx((0.75, 3.0))
    assert found["itl_mean_s"] == pytest.approx(2 / 3)
    assert (found["requests_per_s"], found["output_tokens_per_s"]) == pytest.approx((2 / 5, 5 / 5))
    assert (found["prefix_hit_rate"], found["kv_usage_peak"], found["running_peak"]) == (0.25, 0.5, 3)


def test_failures_count_and_take_no_part() -> None:
    """A request given up after its first token is no answer."""
    given_up = record(0.0, [9.0], Outcome.ABORTED)
    found = run_metrics(run_of(given_up, record(0.0, [1.0, 2.0, 3.0]), record(0.0, [], Outcome.REFUSED)))
    assert (found["requests"], found["failed"], found["ttft_mean_s"]) == (1, 2, 1.0)


def test_a_trimmed_run_counts_what_was_answered_in_its_middle() -> None:
    """Of 10 s the first and the last are left out: two of four answers over 8 s."""
    records = [record(0.0, [0.4, 0.9]), record(0.0, [2.0, 3.0]), record(1.0, [5.0, 6.0]), record(2.0, [9.0, 9.5])]
    found = run_metrics(run_of(*records), trimmed=0.1)
    assert (found["requests"], found["requests_per_s"], found["output_tokens_per_s"]) == (2, 2 / 8, 4 / 8)
    assert found["ttft_mean_s"] == pytest.approx(3.0)


def test_a_run_without_answers_has_counts_and_no_latencies() -> None:
    """Nothing to take a percentile of is no error, and no invented number."""
    found = run_metrics(run_of(record(0.0, [], Outcome.ABORTED)))
    assert (found["requests"], found["failed"]) == (0, 1)
    assert not any(name.startswith(("ttft", "e2e", "itl")) for name in found)
    assert spread("ttft", np.empty(0)) == {}
    assert math.isnan(run_metrics(run_of())["prefix_hit_rate"])


def test_answers_of_one_token_have_no_time_per_further_token() -> None:
    """They are left out of TPOT, not divided by zero."""
    one = np.array([1])
    found = latency_metrics(np.zeros(1), np.ones(1), np.ones(1), one, np.array([True]))
    assert "tpot_mean_s" not in found
    assert found["e2e_mean_s"] == 1.0
