"""Least squares on logarithms: positive whatever happens, unbent by stray rows, honest about rows not seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.fitting.robust import Residuals, Start, Vector, fit, free_around, interval, k_folds, leave_out, solve

SIZES = np.linspace(1.0, 100.0, 60)


def line_through(times: Vector) -> Residuals:
    """Return residuals of `a + b x size` against times."""

    def residuals(p: Vector, rows: np.ndarray) -> Vector:
        a, b = np.exp(p)
        return np.log(a + b * SIZES[rows]) - np.log(times[rows])

    return residuals


ALL = np.arange(len(SIZES))
START = free_around(np.array([1.0, 1.0]))


@given(st.floats(0.02, 50.0), st.floats(0.02, 50.0))
def test_exact_times_give_back_any_positive_line(a: float, b: float) -> None:
    """From a start up to fifty times off."""
    found = solve(line_through(a + b * SIZES), START, ALL)
    assert found @ [1, 50] == pytest.approx(a + 50 * b, rel=1e-3)


def test_a_cost_that_is_not_there_becomes_small_and_never_negative() -> None:
    """Times that fall with size would like a slope below zero."""
    found = solve(line_through(10.0 - 0.05 * SIZES), START, ALL)
    assert (found > 0).all()
    assert found[1] < 0.01


def test_a_row_in_six_that_stalled_hardly_moves_the_line() -> None:
    """Five times as long, where a plain fit of logarithms would be 30 % off."""
    times = 2.0 + 3.0 * SIZES
    times[::6] *= 5
    assert solve(line_through(times), START, ALL)[1] == pytest.approx(3.0, rel=0.05)


def test_parameters_stop_at_their_limits() -> None:
    """Also where the start lies beyond them."""
    start = Start(np.array([1.0, 50.0]), np.array([1e-3, 1e-3]), np.array([1e3, 2.0]))
    found = solve(line_through(2.0 + 3.0 * SIZES), start, ALL)
    assert found[1] == pytest.approx(2.0)


def test_a_row_left_out_is_predicted_by_the_others() -> None:
    """Twice too long in one fold: half off there, exact elsewhere; and nothing where too few rows are left."""
    times, folds = 2.0 + 3.0 * SIZES, np.arange(len(SIZES)) // 15
    times[folds == 3] *= 2
    errors = leave_out(line_through(times), START, folds)
    assert errors[folds == 3] == pytest.approx(-0.5, abs=0.02)
    assert np.isnan(leave_out(line_through(times), START, np.zeros(len(SIZES), int))).all()


def test_folds_are_even_and_drawn_by_the_generator() -> None:
    """Sizes differ by one at most; the same seed draws the same."""
    folds = k_folds(23, 5, np.random.default_rng(1))
    assert sorted(np.bincount(folds)) == [4, 4, 5, 5, 5]
    assert (folds == k_folds(23, 5, np.random.default_rng(1))).all()
    assert (folds != k_folds(23, 5, np.random.default_rng(2))).any()


def test_an_interval_holds_the_estimate_even_where_no_sample_does() -> None:
    """And is the estimate itself without samples."""
    low, high = interval([np.array([2.0]), np.array([3.0])], np.array([1.0]))
    assert low[0] == 1.0
    assert high[0] == pytest.approx(3.0, abs=0.05)
    assert [bound.tolist() for bound in interval([], np.array([1.0]))] == [[1.0], [1.0]]


def test_more_noise_makes_wider_intervals() -> None:
    """About in proportion."""

    def width(spread: float) -> float:
        rng = np.random.default_rng(0)
        times = (2.0 + 3.0 * SIZES) * np.exp(spread * rng.standard_normal(len(SIZES)))
        one = fit(line_through(times), START, k_folds(len(SIZES), 5, rng), replicates=100, rng=rng)
        return float(one.high[1] / one.low[1] - 1)

    assert width(0.04) / width(0.01) == pytest.approx(4, rel=0.5)
