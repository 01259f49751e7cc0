"""BLIS's distributions of lengths: a type and named parameters, rounded to at least one token."""

import math
from collections.abc import Callable

import numpy as np

from workloads.errors import WorkloadError
from workloads.traces.bounded import check_kind
from workloads.traces.json_rows import Row
from workloads.traces.request import MOST_TOKENS

Draw = Callable[[np.random.Generator], int]
_MOST_BINS = 100_000
_MOST, _LEAST_MU = 1e9, -100.0
_MOST_LENGTH = MOST_TOKENS - 1_000_000  # that a prefix may have
_NEEDS = {
    "gaussian": ("mean", "std_dev", "min", "max"),
    "exponential": ("mean",),
    "pareto_lognormal": ("alpha", "xm", "mu", "sigma", "mix_weight"),
    "lognormal": ("mu", "sigma"),
    "constant": ("value",),
    "empirical": (),
}


class Lengths(Row, frozen=True, gc=False):
    """One distribution, as written."""

    type: str
    params: dict[str, float] | None = None
    file: str | None = None

    def draw(self, where: str) -> Draw:
        """Return a function that draws a length; raises WorkloadError for what the type needs and has not."""
        params = self.params or {}
        kind = check_kind(where, self.type, _NEEDS)
        missing = next((name for name in _NEEDS[kind] if name not in params), None)
        if missing:
            raise WorkloadError(f"{where}.params: key missing: {missing}, which {kind} needs")
        for name, value in params.items():
            if not (_LEAST_MU if name == "mu" else 0.0) <= value <= _MOST:
                raise WorkloadError(f"{where}.params.{name[:40]} {value:g} must be a number from 0 to {_MOST:g}")
        if kind == "empirical":
            return _empirical(where, params)
        low, high = params.get("min", 0.0), params.get("max", 0.0) or _MOST
        if low > high:
            raise WorkloadError(f"{where}.params: min {low:g} is above max {high:g}")
        shape = _SHAPES[kind]

        def draw(rng: np.random.Generator) -> int:
            return max(round(min(max(shape(params, rng), low), high, _MOST_LENGTH)), 1)

        return draw


def _pareto_lognormal(params: dict[str, float], rng: np.random.Generator) -> float:
    if rng.random() < params["mix_weight"]:
        exponent = -math.log(1 - rng.random()) / max(params["alpha"], 1e-9)
        return params["xm"] * math.exp(min(exponent, 700.0))
    return _lognormal(params, rng)


def _lognormal(params: dict[str, float], rng: np.random.Generator) -> float:
    return math.exp(min(params["mu"] + params["sigma"] * float(rng.standard_normal()), 700.0))


_SHAPES: dict[str, Callable[[dict[str, float], np.random.Generator], float]] = {
    "gaussian": lambda params, rng: params["mean"] + params["std_dev"] * float(rng.standard_normal()),
    "exponential": lambda params, rng: float(rng.exponential(params["mean"])),
    "pareto_lognormal": _pareto_lognormal,
    "lognormal": _lognormal,
    "constant": lambda params, _rng: params["value"],
}


def _empirical(where: str, params: dict[str, float]) -> Draw:
    """Return draws from weights by length, which are the parameters themselves."""
    if not params or len(params) > _MOST_BINS:
        raise WorkloadError(f"{where}.params: lengths and their weights are needed, up to {_MOST_BINS:,} of them")
    wrong = next((key for key in params if not key.isascii() or not key.isdigit() or len(key) > 7), None)
    if wrong is not None:
        raise WorkloadError(f"{where}.params: {wrong[:30]!r} must be a number of tokens")
    weights = np.array(list(params.values()))
    if not weights.sum() > 0:
        raise WorkloadError(f"{where}.params: the weights sum to 0")
    values, below = [int(key) for key in params], np.cumsum(weights / weights.sum())

    def draw(rng: np.random.Generator) -> int:
        place = int(np.searchsorted(below, rng.random(), side="right"))
        return max(values[min(place, len(values) - 1)], 1)

    return draw
