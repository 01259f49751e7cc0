"""Fit `WholeSteps` on recorded steps: non-negative, relative errors, robust, with intervals and an honest error.

Weights are one over the predicted time, so that a short decode step counts as much as a long prefill (dividing by
the measured time would pull the fit below the mean); steps beyond a few robust deviations count less (Huber).
A machine drifts while it runs and neighbouring steps resemble each other, so the bootstrap and the folds take
stretches of consecutive steps, not single ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sim.errors import MeasurementError
from sim.steptime.batch import BatchShape
from sim.steptime.profile import Term
from sim.steptime.whole_steps import Scatter, ScatteredSteps, StepTerms, WholeSteps, step_terms

Floats = NDArray[np.float64]

HUBER_DEVIATIONS = 3.0
REWEIGHTINGS = 8
STRETCH_STEPS = 50
FOLDS = 5
BOOTSTRAP_DRAWS = 200
INTERVAL_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class FitQuality:
    """How well steps the fit has not seen are predicted: relative errors over folds of consecutive steps."""

    steps: int
    median_error: float
    p90_error: float
    total_bias: float  # predicted over measured time of all steps, - 1


@dataclass(frozen=True, slots=True)
class WholeStepsFit:
    """The fitted steps, what varies about them, and the out-of-sample error.

    `draws_s` are bootstrap draws of the six coefficients, one a row. The factors are measured over fitted time of the
    steps with and without a prefill, in the order they ran.
    """

    steps: WholeSteps
    draws_s: Floats
    prefill_factors: Floats
    decode_factors: Floats
    quality: FitQuality

    def draw(self, rng: np.random.Generator) -> ScatteredSteps:
        """Return one draw of the engine."""
        coefficients_s = tuple(self.draws_s[rng.integers(len(self.draws_s))].tolist())
        return ScatteredSteps(coefficients_s, Scatter(self.prefill_factors, rng), Scatter(self.decode_factors, rng))


def fit_whole_steps(batches: Sequence[BatchShape], seconds: Sequence[float], rng: np.random.Generator) -> WholeStepsFit:
    """Return the fit of steps in the order they ran.

    Raises MeasurementError if there are too few of them, or one took no time.
    """
    terms, times = np.array([step_terms(batch) for batch in batches], float), np.array(seconds, float)
    if len(times) < STRETCH_STEPS * FOLDS:
        raise MeasurementError(f"{len(times)} steps to fit on are too few, need at least {STRETCH_STEPS * FOLDS}")
    if not times.min() > 0:
        raise MeasurementError(f"step {int(times.argmin())} to fit on took {times.min():g} s, must be above 0")
    values = _coefficients(terms, times)
    draws = np.array([_coefficients(terms[rows], times[rows]) for rows in _resamples(len(times), rng)])
    low, high = np.percentile(draws, INTERVAL_PERCENTILES, axis=0)
    fitted = [
        Term(value=value, source="fitted", low=min(a, value), high=max(b, value))
        for value, a, b in zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    steps = WholeSteps(**{f"per_{name}_s": term for name, term in zip(StepTerms._fields, fitted, strict=True)})
    factors = times / (terms @ values)
    prefill = terms[:, StepTerms._fields.index("prefill_step")] > 0
    for what, some in (("with a prefill", prefill.any()), ("without a prefill", not prefill.all())):
        if not some:
            raise MeasurementError(f"no step {what} among the {len(times)} to fit on")
    return WholeStepsFit(steps, draws, factors[prefill], factors[~prefill], _quality(terms, times))


def _coefficients(terms: Floats, times: Floats) -> Floats:
    """Return the six coefficients in seconds a unit."""
    scale = np.maximum(terms.max(axis=0), 1.0)
    weights = 1.0 / times
    found = np.zeros(terms.shape[1])
    for _ in range(REWEIGHTINGS):
        found = nnls(terms / scale * weights[:, None], times * weights)[0] / scale
        expected = np.maximum(terms @ found, 0.01 * times)  # a first guess may give a step nothing at all
        errors = np.abs(times / expected - 1)
        limit = HUBER_DEVIATIONS * 1.4826 * float(np.median(errors)) + 1e-12
        weights = np.sqrt(np.minimum(1.0, limit / np.maximum(errors, limit / 10))) / expected
    return np.asarray(found, float)


def _resamples(count: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return rows for each bootstrap draw: whole stretches, drawn with replacement."""
    stretches = np.array_split(np.arange(count), count // STRETCH_STEPS)
    return [
        np.concatenate([stretches[index] for index in rng.integers(len(stretches), size=len(stretches))])
        for _ in range(BOOTSTRAP_DRAWS)
    ]


def _quality(terms: Floats, times: Floats) -> FitQuality:
    fold = np.arange(len(times)) // STRETCH_STEPS % FOLDS
    expected = np.empty_like(times)
    for held_out in range(FOLDS):
        inside = fold == held_out
        expected[inside] = terms[inside] @ _coefficients(terms[~inside], times[~inside])
    errors = np.abs(expected / times - 1)
    return FitQuality(
        steps=len(times),
        median_error=float(np.median(errors)),
        p90_error=float(np.percentile(errors, 90)),
        total_bias=float(expected.sum() / times.sum() - 1),
    )
