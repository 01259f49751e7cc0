"""Distributions as load generators write them: a kind with `min`, `max`, `mean` and `std_dev`, drawn and then clipped.

The rules are inference-perf's (utils/numeric/distribution); the catalog's `exponential` and `bimodal` are our reading:
the first decays from `min` on, the second is a share at `min` and the rest at one higher mode, such that mean and
deviation come out. Clipping moves both, where a bound is near.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from workloads.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class Bounded:
    """One distribution."""

    kind: str
    low: float
    high: float
    mean: float
    std_dev: float = 0.0
    skew: float = 0.0

    def draw(self, rng: np.random.Generator) -> float:
        """Return one value from `low` to `high`."""
        value = KINDS[self.kind](self, rng)
        return value if self.kind == "fixed" else min(max(value, self.low), self.high)

    def whole(self, rng: np.random.Generator) -> int:
        """Return one value as a count."""
        return round(self.draw(rng))


def checked(where: str, one: Bounded) -> Bounded:
    """Return a distribution under its kind's own name.

    Raises WorkloadError, which begins with `where`, for an unknown kind and bounds that contradict each other.
    """
    kind = check_kind(where, _ALIASES.get(one.kind, one.kind), KINDS)
    if one.low > one.high:
        raise WorkloadError(f"{where}: min {one.low:g} is above max {one.high:g}")
    if kind == "lognormal" and one.mean <= 0 < one.std_dev:
        raise WorkloadError(f"{where}: mean {one.mean:g} of a lognormal must be above 0")
    if kind in {"exponential", "bimodal"} and not one.low <= one.mean <= one.high:
        raise WorkloadError(f"{where}: mean {one.mean:g} is not between min {one.low:g} and max {one.high:g}")
    return replace(one, kind=kind)


def constant(value: float) -> Bounded:
    """Return what is always the same."""
    return Bounded("fixed", value, value, value)


def check_kind(where: str, kind: str, known: Mapping[str, object]) -> str:
    """Return the name of a kind.

    Raises WorkloadError, with the nearest known, if there is no such kind.
    """
    if kind in known:
        return kind
    near = get_close_matches(kind, known, n=1, cutoff=0.4)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise WorkloadError(f"{where}: distribution {kind[:40]!r} is not one of {', '.join(known)}{hint}")


def _normal(one: Bounded, rng: np.random.Generator) -> float:
    return one.mean + one.std_dev * float(rng.standard_normal())


def _skew_normal(one: Bounded, rng: np.random.Generator) -> float:
    """Azzalini's: `mean` and `std_dev` are location and scale, as inference-perf has it."""
    delta = one.skew / math.hypot(1.0, one.skew)
    first, second = float(rng.standard_normal()), float(rng.standard_normal())
    skewed = delta * first + math.sqrt(1 - delta**2) * second
    return one.mean + one.std_dev * (skewed if first >= 0 else -skewed)


def _lognormal(one: Bounded, rng: np.random.Generator) -> float:
    if not one.std_dev:
        return one.mean
    variance = math.log1p(min(one.std_dev / one.mean, 1e100) ** 2)
    exponent = math.log(one.mean) - variance / 2 + math.sqrt(variance) * float(rng.standard_normal())
    return math.exp(min(exponent, 700.0))


def _uniform(one: Bounded, rng: np.random.Generator) -> float:
    return float(rng.uniform(one.low, one.high + 1))  # clipped: the ends are as likely as any other


def _poisson(one: Bounded, rng: np.random.Generator) -> float:
    return float(rng.poisson(one.mean if one.mean > 0 else 1.0))


def _fixed(one: Bounded, rng: np.random.Generator) -> float:
    del rng
    return one.mean


def _exponential(one: Bounded, rng: np.random.Generator) -> float:
    return one.low + float(rng.exponential(one.mean - one.low))


def _bimodal(one: Bounded, rng: np.random.Generator) -> float:
    above, room = one.mean - one.low, one.high - one.low
    if above <= 0 or one.std_dev <= 0:
        return one.mean
    share = max((above / math.hypot(above, one.std_dev)) ** 2, above / room)
    return one.low + above / share if rng.random() < share else one.low


KINDS: dict[str, Callable[[Bounded, np.random.Generator], float]] = {
    "normal": _normal,
    "skew_normal": _skew_normal,
    "lognormal": _lognormal,
    "uniform": _uniform,
    "poisson": _poisson,
    "fixed": _fixed,
    "exponential": _exponential,
    "bimodal": _bimodal,
}
_ALIASES = {"log_normal": "lognormal", "constant": "fixed", "gaussian": "normal"}
