"""Fitting step times on whole steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrate.fitting.whole_steps import WholeStepsFit, fit_whole_steps
from sim.errors import MeasurementError
from sim.steptime.batch import BatchShape
from sim.steptime.whole_steps import step_terms

TRUE_S = np.array([5e-3, 2e-3, 1.2e-4, 1.2e-7, 1e-4, 4.5e-7])
positive = st.floats(0.2, 5.0)


def batches(count: int = 1500) -> list[BatchShape]:
    """Return a mix of decode steps and chunks with decode rows, as a closed loop makes them."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(count):
        rows = int(rng.integers(0, 5))
        chunk = int(rng.integers(64, 512)) if rows == 0 or rng.random() < 0.2 else 0
        pairs = chunk * (float(rng.integers(0, 3000)) + (chunk + 1) / 2)
        kv_tokens = int(rng.integers(500, 3000, rows).sum())
        found.append(BatchShape(chunk + rows, 0, pairs, rows, kv_tokens, 0.0, chunk > 0))
    return found


SHAPES = batches()
TERMS = np.array([step_terms(batch) for batch in SHAPES])


def fitted(times: np.ndarray) -> WholeStepsFit:
    """Return the fit of times for the shared batches."""
    return fit_whole_steps(SHAPES, times.tolist(), np.random.default_rng(0))


@settings(max_examples=10, deadline=None)
@given(st.tuples(*[positive] * 6))
def test_steps_without_noise_give_back_their_coefficients(factors: tuple[float, ...]) -> None:
    """Whatever the six costs are, a fit on exact times finds them, and its held-out error is nothing."""
    true = TRUE_S * factors
    fit = fitted(TERMS @ true)
    assert fit.steps.coefficients_s == pytest.approx(tuple(true), rel=1e-6)
    assert fit.quality.p90_error < 1e-6


def test_noise_of_a_tenth_moves_no_total_and_stays_inside_the_intervals() -> None:
    """Relative noise biases the total by less than half a percent, and the intervals hold the truth."""
    noise = np.exp(0.1 * np.random.default_rng(2).standard_normal(len(TERMS)))
    fit = fitted(TERMS @ TRUE_S * noise)
    assert sum(fit.steps.seconds(batch) for batch in SHAPES) == pytest.approx((TERMS @ TRUE_S).sum(), rel=0.01)
    assert abs(fit.quality.total_bias) < 0.005
    for name, true in zip(step_terms(SHAPES[0])._fields, TRUE_S, strict=True):
        term = getattr(fit.steps, f"per_{name}_s")
        assert term.low <= true <= term.high, name
    assert np.log(fit.decode_factors).std() == pytest.approx(0.1, rel=0.1)


def test_a_few_stalled_steps_hardly_move_the_fit() -> None:
    """One step in fifty taking ten times as long changes the price of the rest by less than 3 %."""
    times = TERMS @ TRUE_S * np.exp(0.05 * np.random.default_rng(3).standard_normal(len(TERMS)))
    times[::50] *= 10
    fit = fitted(times)
    assert sum(fit.steps.seconds(batch) for batch in SHAPES) == pytest.approx((TERMS @ TRUE_S).sum(), rel=0.03)


def test_a_cost_that_is_not_there_is_zero_and_never_negative() -> None:
    """With no cost a decode row, the fit has none, however the noise falls."""
    free_rows = TRUE_S * [1, 1, 1, 1, 0, 1]
    times = TERMS @ free_rows * np.exp(0.05 * np.random.default_rng(4).standard_normal(len(TERMS)))
    fit = fitted(times)
    assert min(fit.steps.coefficients_s) >= 0
    assert (fit.draws_s >= 0).all()
    assert fit.steps.per_decode_row_s.value < 1e-4


@pytest.mark.parametrize(("times", "says"), [([0.01] * 100, "too few"), ([0.01] * 999 + [0.0], "step 999")])
def test_what_cannot_be_fitted_is_refused_in_words(times: list[float], says: str) -> None:
    """Too few steps, or one that took no time, are the user's to mend."""
    with pytest.raises(MeasurementError, match=says):
        fit_whole_steps(SHAPES[: len(times)], times, np.random.default_rng(0))


def test_a_drawn_engine_replays_stretches_of_measured_factors_in_their_order() -> None:
    """What it charges for a decode step over its price are neighbours in the recording: drift is kept."""
    drift = 1 + 0.1 * np.sin(np.arange(len(TERMS)) / 40)
    fit = fitted(TERMS @ TRUE_S * drift)
    steps = fit.draw(np.random.default_rng(5))
    decode = next(batch for batch in SHAPES if not batch.holds_prefill)
    price = float(np.dot(step_terms(decode), steps.coefficients_s))
    factors = np.array([steps.seconds(decode) / price for _ in range(20_000)])
    assert np.isin(factors.round(9), fit.decode_factors.round(9)).all()
    assert factors.mean() == pytest.approx(fit.decode_factors.mean(), rel=0.01)
    assert np.corrcoef(factors[:-1], factors[1:])[0, 1] > 0.9


def test_one_seed_draws_one_engine() -> None:
    """Two predictions of a seed meet the same step times."""
    fit = fitted(TERMS @ TRUE_S * np.exp(0.1 * np.random.default_rng(6).standard_normal(len(TERMS))))
    runs = [[fit.draw(np.random.default_rng(7)).seconds(batch) for batch in SHAPES[:300]] for _ in range(2)]
    assert runs[0] == runs[1]
