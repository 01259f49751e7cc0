"""Updates a device profile by whole-step and end-to-end figures, as far as they can say anything.

Every term has a range; the figures are evidence. The posterior mode in the logarithm of all terms at once is a
least-squares problem: each figure pulls by its relative error, each term resists by its range. How much narrower a
term's range becomes says whether the figures determine it; a handful of figures never determines them all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from calibrate.fitting.limits import limits_of
from calibrate.fitting.robust import Vector
from calibrate.fitting.terms import terms_of, with_terms, with_values
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile
from sim.steptime.profile import Term

Predict = Callable[[DeviceProfile], Vector]  # seconds of every figure

TO_95 = 1.96
LEAST_SIGMA = 0.03  # a rate fitted to loops is not truer than this in a whole step
LEAST_SIGMA_OVERHEAD = 0.3  # and an overhead far less: in a step, launches overlap and GPUs wait for each other
OVERHEADS = ("overhead_s", "latency_s", "row_s")
FIGURE_SIGMA = 0.03  # relative; what a published median is worth
DETERMINED, PARTLY = 0.5, 0.9  # posterior over prior width
MOVED = 0.1  # prior sigmas; a term that moved less keeps its value
ALWAYS_FIXED = ("sharpness", "tile_elements", "pipeline_depth", "tile_rows")  # shapes: only operations tell them
DIFFERENCE = 1e-4  # absolute: scipy's own step shrinks with z, and a term near its prior would drown in rounding


@dataclass(frozen=True, slots=True)
class Refined:
    """The updated profile, the width each term kept, and how well the figures are met."""

    profile: DeviceProfile
    kept_width: Mapping[str, float]  # posterior / prior standard deviation of the logarithm, by term
    residuals: Vector  # predicted / measured - 1, by figure

    def verdict(self, name: str) -> str:
        """Say whether the figures determine a term."""
        width = self.kept_width[name]
        return "determined" if width < DETERMINED else "partly" if width < PARTLY else "not determined"


def free_terms(profile: DeviceProfile) -> dict[str, Term]:
    """Return the terms that evidence may move: those with a range."""
    return {
        name: term
        for name, term in terms_of(profile)
        if term.value > 0 and term.low is not None and term.high is not None and not name.endswith(ALWAYS_FIXED)
    }


def refine(
    profile: DeviceProfile,
    gpu: Gpu,
    predict: Predict,
    measured: Sequence[float],
    *,
    sigmas: Sequence[float] | None = None,
) -> Refined:
    """Return the profile that agrees best with both its own ranges and the figures."""
    prior = free_terms(profile)
    names = [name for name in prior if _matters(profile, predict, name, prior[name])]
    origin = np.log([prior[name].value for name in names])
    spread = np.array([_sigma(name, prior[name]) for name in names])
    target = np.log(np.asarray(measured, float))
    sigma = np.full(len(target), FIGURE_SIGMA) if sigmas is None else np.asarray(sigmas, float)

    def errors(z: Vector) -> Vector:
        values = dict(zip(names, np.exp(origin + z * spread).tolist(), strict=True))
        logs: Vector = np.log(predict(with_values(profile, values))) - target
        return logs

    def residuals(z: Vector) -> Vector:
        return np.concatenate([_soft(errors(z) / sigma), z])

    def slopes(z: Vector) -> Vector:
        at = residuals(z)
        return np.array([(residuals(z + DIFFERENCE * unit) - at) / DIFFERENCE for unit in np.eye(len(z))]).T

    limits = np.array([limits_of(name, gpu) for name in names]).T
    with np.errstate(divide="ignore"):
        lowest, highest = (np.log(limits) - origin) / spread
    bounds = (np.minimum(lowest, -DIFFERENCE), np.maximum(highest, DIFFERENCE))
    found = least_squares(residuals, np.zeros(len(names)), bounds=bounds, jac=slopes)
    z, jacobian = np.asarray(found.x), np.asarray(found.jac)
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    kept = np.sqrt(np.diag(covariance))
    changed = {
        name: _posterior(prior[name], float(z[i] * spread[i]), float(spread[i]), float(kept[i]), limits[:, i].tolist())
        for i, name in enumerate(names)
        if kept[i] < PARTLY or abs(z[i]) > MOVED
    }
    refined = with_terms(profile, changed)
    width = dict.fromkeys(prior, 1.0) | dict(zip(names, kept.tolist(), strict=True))
    return Refined(refined, width, np.expm1(np.log(predict(refined)) - target))


def _soft(scaled: Vector) -> Vector:
    """Let a figure's pull grow like a square root beyond five of its sigmas: one bad row must not bend the rest."""
    size: Vector = np.abs(scaled)
    limit = 5.0
    beyond = np.sqrt(limit * (2 * np.maximum(size, limit) - limit))
    return np.where(size <= limit, scaled, np.sign(scaled) * beyond)


def _sigma(name: str, term: Term) -> float:
    assert term.low is not None
    assert term.high is not None
    low = max(term.low, term.value / 100)
    least = LEAST_SIGMA_OVERHEAD if name.endswith(OVERHEADS) else LEAST_SIGMA
    return max(least, float(np.log(term.high / low)) / (2 * TO_95))


def _posterior(prior: Term, moved: float, sigma: float, kept: float, limits: Sequence[float]) -> Term:
    """Return the term after `moved` in its logarithm; it is called fitted only where the figures narrowed it."""
    spread = float(np.exp(TO_95 * sigma * kept))
    value = min(max(float(prior.value * np.exp(moved)), limits[0]), limits[1])
    low, high = max(value / spread, limits[0]), min(value * spread, limits[1])
    return Term(value=value, source="fitted" if kept < PARTLY else prior.source, low=low, high=high, note=prior.note)


def _matters(profile: DeviceProfile, predict: Predict, name: str, term: Term) -> bool:
    """Say whether any figure moves when the term does: most terms belong to dtypes nobody ran."""
    moved = predict(with_values(profile, {name: term.value * 1.1})) != predict(profile)
    return bool(np.any(moved))
