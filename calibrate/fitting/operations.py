"""Fits the terms of single operations, one group at a time, with intervals and held-out errors."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from calibrate.fitting.groups import RATES_ALONE, Group, groups, pick
from calibrate.fitting.limits import limits_of
from calibrate.fitting.robust import Fit, Start, Vector, fit, free_around, k_folds, leave_out
from calibrate.fitting.terms import terms_of
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile
from sim.steptime.profile import Term

FOLDS = 5
FEW_ROWS_DOUBT = 1.4  # a rate told by a handful of rows is known within this factor at best
MOST_ROWS = 2000  # a sample this size gives the terms that 40,000 rows give, in a fraction of the time


@dataclass(frozen=True, slots=True)
class GroupFit:
    """A fitted group: its terms, and how far off it is on rows it saw, on folds and on contexts it did not see."""

    group: Group
    terms: dict[str, Term]
    fit: Fit
    context_held_out: Vector  # predicted / measured - 1 with all rows of the same context left out; may be nan

    @property
    def summary(self) -> dict[str, float]:
        """Medians of |error| and the 90th percentile: seen, held out by fold, held out by context."""
        seen = np.abs(self.fit.residuals)
        return {
            "rows": float(len(seen)),
            "median": float(np.median(seen)),
            "p90": float(np.quantile(seen, 0.9)),
            "k_fold_median": _median(self.fit.held_out),
            "context_left_out_median": _median(self.context_held_out),
        }

    @property
    def measured_range(self) -> str:
        """Say what the rows span; beyond it the formula goes on along its FLOP or its byte line."""
        sizes = self.group.rows[self.group.context]
        name = self.group.context.replace("_", " ")
        return f"{self.group.name}: measured from {sizes.min():,.0f} to {sizes.max():,.0f} {name}; extrapolated beyond"


def _median(errors: Vector) -> float:
    """Return the median of |error|, NaN where no row could be held out."""
    known = np.abs(errors[~np.isnan(errors)])
    return float(np.median(known)) if len(known) else float("nan")


def fit_operations(
    profile: DeviceProfile, gpu: Gpu, table: pd.DataFrame, *, replicates: int, seed: int
) -> Iterator[GroupFit]:
    """Yield a fit for every group of terms that the table of one GPU has enough rows for."""
    for group in groups(gpu, table):
        yield fit_group(profile, gpu, group, replicates=replicates, rng=np.random.default_rng(seed))


def fit_group(profile: DeviceProfile, gpu: Gpu, group: Group, *, replicates: int, rng: np.random.Generator) -> GroupFit:
    """Fit one group, starting from the profile's own values."""
    ample = not group.name.endswith(RATES_ALONE)
    if len(group.rows) > MOST_ROWS:
        group = replace(group, rows=group.rows.sample(MOST_ROWS, random_state=rng))
    columns = group.columns()
    measured = np.log(columns["time_s"])
    own = {
        name.removeprefix(group.prefix + "."): term.value
        for name, term in terms_of(profile)
        if name.startswith(group.prefix + ".")
    }

    def residuals(p: Vector, rows: NDArray[np.intp]) -> Vector:
        values = own | dict(zip(group.fields, np.exp(p).tolist(), strict=True))
        predicted: Vector = np.log(group.predict(values, pick(columns, rows))) - measured[rows]
        return predicted

    start = _start(group, own, gpu)
    result = fit(residuals, start, k_folds(len(measured), FOLDS, rng), replicates=replicates, rng=rng)
    spread = 1.0 if ample else FEW_ROWS_DOUBT
    terms = {
        f"{group.prefix}.{field}": Term(
            value=float(value),
            source="fitted",
            low=float(min(low, value / spread)),
            high=float(max(high, value * spread)),
        )
        for field, value, low, high in zip(group.fields, result.values, result.low, result.high, strict=True)
    }
    contexts = np.unique(columns[group.context], return_inverse=True)[1]
    left_out = leave_out(residuals, replace(start, values=result.values), _at_most(contexts, 12))
    return GroupFit(group, terms, result, left_out)


def _start(group: Group, own: dict[str, float], gpu: Gpu) -> Start:
    start = free_around(np.array([own[field] for field in group.fields]))
    limits = np.array([limits_of(f"{group.prefix}.{field}", gpu) for field in group.fields])
    return Start(start.values, np.maximum(start.lowest, limits[:, 0]), np.minimum(start.highest, limits[:, 1]))


def _at_most(contexts: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Merge neighbouring contexts until there are few enough to leave out one by one."""
    count = int(contexts.max()) + 1
    return contexts if count <= most else contexts * most // count
