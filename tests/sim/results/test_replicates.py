"""Seeds into one point: the mean and Student's interval."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sim.results.replicates import FEW_REQUESTS, rests_on_few, summarise

values = st.lists(st.floats(0.01, 1000), min_size=2, max_size=12)


@given(values)
def test_the_interval_is_students_t_over_seeds(seen: list[float]) -> None:
    """As scipy computes it from scratch; never below zero, for nothing here can be."""
    point = summarise([{"ttft_p99_s": value} for value in seen])
    sem = stats.sem(seen)
    assert point["ttft_p99_s"] == pytest.approx(sum(seen) / len(seen))
    if sem > 0:
        low, high = stats.t.interval(0.95, len(seen) - 1, loc=point["ttft_p99_s"], scale=sem)
        assert point["ttft_p99_s_low"] == pytest.approx(max(low, 0.0), abs=1e-9)
        assert point["ttft_p99_s_high"] == pytest.approx(high)
    assert point["ttft_p99_s_low"] <= point["ttft_p99_s"] <= point["ttft_p99_s_high"]


def test_two_seeds_have_the_interval_of_the_table() -> None:
    """Mean 2, standard error 1, t(0.975, 1) = 12.706."""
    point = summarise([{"x": 1.0}, {"x": 3.0}])
    assert (point["x"], point["x_low"]) == (2.0, 0.0)
    assert point["x_high"] == pytest.approx(2 + 12.7062, rel=1e-5)


def test_one_seed_has_no_interval() -> None:
    """Nothing is made up."""
    assert summarise([{"ttft_p99_s": 2.0, "requests": 7}]) == {"ttft_p99_s": 2.0, "requests": 7}


def test_counts_are_rounded_and_rates_are_not() -> None:
    """168.33 turns make no sense; 0.419 turns a second do."""
    runs = [{"requests": n, "preemptions": n, "requests_per_s": n / 1000} for n in (168, 168, 169)]
    point = summarise(runs)
    assert point["requests"] == point["preemptions"] == 168
    assert isinstance(point["requests"], int)
    assert point["requests_per_s"] == pytest.approx(0.16833333)


def test_a_seed_in_which_nothing_completed_is_left_out_of_the_mean() -> None:
    """If all are, the mean is unknown and has no interval."""
    point = summarise([{"a": 1.0, "b": math.nan}, {"a": math.nan, "b": math.nan}, {"a": 2.0, "b": math.nan}])
    assert point["a"] == 1.5
    assert point["a_high"] == pytest.approx(1.5 + 12.7062 * 0.5, rel=1e-5)
    assert math.isnan(point["b"])
    assert "b_low" not in point


def test_a_p99_of_fewer_than_a_thousand_turns_is_flagged() -> None:
    """It would rest on fewer than ten of them."""
    assert rests_on_few({"requests": FEW_REQUESTS - 1})
    assert not rests_on_few({"requests": FEW_REQUESTS})
