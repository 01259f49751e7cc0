"""Least squares on the logarithm of times: robust, positive, with bootstrap intervals and held-out errors.

All parameters are positive and enter by their logarithm, so no fit can return a negative cost. A soft-L1 loss
keeps a stray row (a clock that dipped, a kernel that was chosen badly once) from bending the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Vector = NDArray[np.float64]
Residuals = Callable[[Vector, NDArray[np.intp]], Vector]  # (log parameters, rows) -> log(predicted / measured)

LOSS_SCALE = 0.1  # beyond a tenth, a row's pull grows only linearly
FREEDOM = 1e3  # a parameter may move by this factor either way from its start


@dataclass(frozen=True, slots=True)
class Fit:
    """Parameters with 95 % bootstrap intervals, and what is left over."""

    values: Vector
    low: Vector
    high: Vector
    residuals: Vector  # predicted / measured - 1, by row
    held_out: Vector  # the same, each row predicted by a fit that did not see its fold


@dataclass(frozen=True, slots=True)
class Start:
    """Where the parameters begin and between what they may move."""

    values: Vector
    lowest: Vector
    highest: Vector


def free_around(values: Vector) -> Start:
    """Return a start whose parameters may move a thousandfold."""
    return Start(values, values / FREEDOM, values * FREEDOM)


def solve(residuals: Residuals, start: Start, rows: NDArray[np.intp]) -> Vector:
    """Return the parameters that fit the rows best; `start` and the result are plain values."""
    found = least_squares(
        lambda p: residuals(p, rows),
        np.log(np.clip(start.values, start.lowest * (1 + 1e-9), start.highest * (1 - 1e-9))),
        loss="soft_l1",
        f_scale=LOSS_SCALE,
        bounds=(np.log(start.lowest), np.log(start.highest)),
    )
    values: Vector = np.exp(np.asarray(found.x))
    return values


def fit(
    residuals: Residuals, start: Start, folds: NDArray[np.intp], *, replicates: int, rng: np.random.Generator
) -> Fit:
    """Fit all rows, once more without each fold, and over bootstrap samples of the rows."""
    rows = np.arange(len(folds))
    values = solve(residuals, start, rows)
    near = replace(start, values=values)
    samples = [solve(residuals, near, rng.choice(rows, len(rows))) for _ in range(replicates)]
    low, high = interval(samples, values)
    held_out = leave_out(residuals, near, folds)
    return Fit(values, low, high, np.expm1(residuals(np.log(values), rows)), held_out)


def leave_out(residuals: Residuals, start: Start, folds: NDArray[np.intp]) -> Vector:
    """Return predicted / measured - 1 of every row under a fit that saw no row of its fold."""
    rows = np.arange(len(folds))
    held_out = np.full(len(rows), np.nan)
    for fold in np.unique(folds):
        inside, outside = rows[folds != fold], rows[folds == fold]
        if len(inside) >= len(start.values):
            held_out[outside] = np.expm1(residuals(np.log(solve(residuals, start, inside)), outside))
    return held_out


def interval(samples: Sequence[Vector], values: Vector) -> tuple[Vector, Vector]:
    """Return the 95 % percentile interval of bootstrap samples, stretched to hold the estimate itself."""
    if not samples:
        return values, values
    low, high = np.percentile(np.array(samples), [2.5, 97.5], axis=0)
    return np.minimum(low, values), np.maximum(high, values)


def k_folds(count: int, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return a fold number for each row, evenly and at random."""
    return rng.permutation(np.arange(count) % k)
