"""Sessions in a scenario file: lengths, depths and think times as numbers or distributions."""

import math
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

Tokens = Annotated[int, Meta(ge=0, le=10_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=1e7)]
Positive = Annotated[float, Meta(gt=0, le=1e7)]
Sessions = Annotated[int, Meta(ge=1, le=100_000)]


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Strict: a key that is not known is an error."""


class ConstantSpec(Spec, tag_field="kind", tag="constant", frozen=True):
    """Always the same value."""

    value: Seconds


class UniformSpec(Spec, tag_field="kind", tag="uniform", frozen=True):
    """Between low and high."""

    low: Seconds
    high: Seconds

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError(f"high {self.high:g} must be at least low {self.low:g}")


class ExponentialSpec(Spec, tag_field="kind", tag="exponential", frozen=True):
    """Memoryless, without what lies outside min to max."""

    mean: Seconds
    min: Seconds = 0.0
    max: Seconds | None = None

    def __post_init__(self) -> None:
        _check_bounds(self.min, self.max)


NORMAL_QUANTILES = {  # of the standard normal distribution
    "p75": 0.6744897501960817,
    "p90": 1.2815515655446004,
    "p95": 1.6448536269514722,
    "p99": 2.3263478740408408,
}
_MOST_SIGMA = 5.0


class LognormalSpec(Spec, tag_field="kind", tag="lognormal", frozen=True):
    """By median and sigma of the logarithm, or a percentile in place of sigma; or by mean and std. Cut to min, max."""

    median: Positive | None = None
    sigma: Annotated[float, Meta(ge=0, le=_MOST_SIGMA)] | None = None
    p75: Positive | None = None
    p90: Positive | None = None
    p95: Positive | None = None
    p99: Positive | None = None
    mean: Positive | None = None
    std: Seconds | None = None
    min: Seconds = 0.0
    max: Seconds | None = None

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None) or (self.median is None) == (self.mean is None):
            raise ValueError("needs median and one of sigma, p75, p90, p95, p99; or mean and std")
        spreads = [name for name in ("sigma", *NORMAL_QUANTILES) if getattr(self, name) is not None]
        if len(spreads) != (self.mean is None):
            some = " and ".join(spreads) or "none"
            raise ValueError(f"needs one of sigma, p75, p90, p95, p99 beside median, none beside mean; got {some}")
        if self.median is not None and spreads[0] != "sigma" and getattr(self, spreads[0]) < self.median:
            raise ValueError(f"{spreads[0]} {getattr(self, spreads[0]):g} must be at least median {self.median:g}")
        if self.parameters[1] > _MOST_SIGMA:
            raise ValueError(f"sigma of the logarithm {self.parameters[1]:.3g} must be at most {_MOST_SIGMA:g}")
        _check_bounds(self.min, self.max)

    @property
    def parameters(self) -> tuple[float, float]:
        """Median, and sigma of the logarithm."""
        if self.mean is not None and self.std is not None:
            variance = math.log1p((self.std / self.mean) ** 2)
            return self.mean / math.exp(variance / 2), math.sqrt(variance)
        assert self.median is not None
        if self.sigma is not None:
            return self.median, self.sigma
        name = next(name for name in NORMAL_QUANTILES if getattr(self, name) is not None)
        return self.median, math.log(getattr(self, name) / self.median) / NORMAL_QUANTILES[name]


class NormalSpec(Spec, tag_field="kind", tag="normal", frozen=True):
    """Cut to three standard deviations and zero, and to what lies within min to max."""

    mean: Positive
    std: Seconds
    min: Seconds = 0.0
    max: Seconds | None = None

    def __post_init__(self) -> None:
        _check_bounds(self.min, self.max)


class QuantilesSpec(Spec, tag_field="kind", tag="quantiles", frozen=True):
    """A share of all values is at most a value; both ascend, shares from 0 to 1. Straight in the logarithm between."""

    shares: Annotated[list[Annotated[float, Meta(ge=0, le=1)]], Meta(min_length=2, max_length=1000)]
    values: Annotated[list[Seconds], Meta(min_length=2, max_length=1000)]

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.values):
            raise ValueError(f"needs as many values as shares, got {len(self.values)} and {len(self.shares)}")
        if self.shares[0] != 0 or self.shares[-1] != 1:
            raise ValueError(f"shares must begin at 0 and end at 1, not {self.shares[0]:g} and {self.shares[-1]:g}")
        for name, steps in (("shares", pairwise(self.shares)), ("values", pairwise(self.values))):
            fall = next(((a, b) for a, b in steps if b < a or (b == a and name == "shares")), None)
            if fall is not None:
                raise ValueError(f"{name} must ascend, and {fall[1]:g} follows {fall[0]:g}")


SimpleSpec = ConstantSpec | UniformSpec | ExponentialSpec | LognormalSpec | NormalSpec | QuantilesSpec
Number = Annotated[float, Meta(ge=0, le=1e7)]


class PartSpec(Spec, frozen=True):
    """A part of a mixture; weights need not sum to 1."""

    weight: Annotated[float, Meta(gt=0, le=1e7)]
    of: Number | SimpleSpec


class MixtureSpec(Spec, tag_field="kind", tag="mixture", frozen=True):
    """One of several distributions each time."""

    parts: Annotated[list[PartSpec], Meta(min_length=1, max_length=100)]


DistributionSpec = SimpleSpec | MixtureSpec

MOST_TURNS = 10_000


def _check_bounds(least: float, most: float | None) -> None:
    if most is not None and most < least:
        raise ValueError(f"max {most:g} must be at least min {least:g}")


def _span(spec: "Number | DistributionSpec") -> tuple[float, float]:
    """Return about where a distribution's values lie."""
    match spec:
        case ConstantSpec():
            return spec.value, spec.value
        case UniformSpec():
            return spec.low, spec.high
        case QuantilesSpec():
            return spec.values[0], spec.values[-1]
        case MixtureSpec():
            spans = [_span(part.of) for part in spec.parts]
            return min(least for least, _ in spans), max(most for _, most in spans)
        case ExponentialSpec():
            low, high = spec.mean, 10 * spec.mean
        case LognormalSpec():
            median, sigma = spec.parameters
            low, high = median, median * math.exp(4 * sigma)
        case NormalSpec():
            low, high = spec.mean, spec.mean + 3 * spec.std
        case _:
            return float(spec), float(spec)
    return max(low, spec.min), high if spec.max is None else min(high, spec.max)


Share = Annotated[float, Meta(ge=0, le=1)]


class CompactionSpec(Spec, frozen=True):
    """How often a session's own context shrinks, to which share of it, and how much of that is its old front."""

    share: Share
    left: Number | DistributionSpec
    kept: Number | DistributionSpec = 0.0
    above_tokens: Number | DistributionSpec | None = None  # of a prompt: an agent's own limit, drawn once a session

    def __post_init__(self) -> None:
        _check_shares(self, "left", "kept")


class ResumedSpec(Spec, frozen=True):
    """A share of sessions that begin where others stopped: with a long context, and other numbers of turns."""

    share: Share
    first_tokens: Number | DistributionSpec
    turns: Number | DistributionSpec | None = None  # as other sessions

    def __post_init__(self) -> None:
        _check_counts(self, "first_tokens", "turns")


class OpeningSpec(Spec, frozen=True):
    """What the first turns after the first bring in sessions that are not resumed."""

    turns: Annotated[int, Meta(ge=1, le=MOST_TURNS)]
    new_tokens: Number | DistributionSpec

    def __post_init__(self) -> None:
        _check_counts(self, "new_tokens")


class RewritesSpec(Spec, frozen=True):
    """How often a prompt changes in its middle, and how much of the session's own context before that is kept."""

    share: Share
    kept: Number | DistributionSpec = 0.0

    def __post_init__(self) -> None:
        _check_shares(self, "kept")


def _check_shares(spec: "CompactionSpec | RewritesSpec", *names: str) -> None:
    for name in names:
        most = _span(getattr(spec, name))[1]
        if most > 1:
            raise ValueError(f"{name} up to {most:g} is a share of the context and at most 1")


def _check_counts(spec: "OpeningSpec | ResumedSpec | WorkloadSpec", *names: str) -> None:
    for name in names:
        value = getattr(spec, name)
        if value is None:
            continue
        least, most = _span(value)
        if least < 1 and isinstance(value, int | float | ConstantSpec | UniformSpec):
            raise ValueError(f"{name} {least:g} must be at least 1")
        if name == "turns" and most > MOST_TURNS:
            raise ValueError(f"turns up to {most:g} are more than the {MOST_TURNS:,} a session may have")


class WorkloadSpec(Spec, frozen=True):
    """One kind of session; a bare number is a constant."""

    shared_prefix_tokens: Tokens
    turns: Number | DistributionSpec
    new_tokens: Number | DistributionSpec
    output_tokens: Number | DistributionSpec
    think_s: Number | DistributionSpec = 0.0
    keeps_output: bool = True
    prefix_name: str | None = None  # sessions with prefixes of one name share them; background ones get their own
    first_tokens: Number | DistributionSpec | None = None  # own tokens of the first prompt; None: new_tokens
    stripped_share: Share = 0.0  # of the prompts after the first: without the answer before them
    compaction: CompactionSpec | None = None
    rewrites: RewritesSpec | None = None
    resumed: ResumedSpec | None = None
    opening: OpeningSpec | None = None
    profile: str | None = None  # a built-in name or a file: what is not said here is what it says

    def __post_init__(self) -> None:
        _check_counts(self, "turns", "first_tokens", "new_tokens", "output_tokens")
        total = self.stripped_share + sum(one.share for one in (self.compaction, self.rewrites) if one is not None)
        if total > 1:
            raise ValueError(f"stripped_share, compaction.share and rewrites.share sum to {total:g}, more than 1")

    @property
    def changes(self) -> bool:
        """Whether sessions do more than grow turn by turn."""
        parts = (self.first_tokens, self.compaction, self.rewrites, self.resumed, self.opening)
        return bool(self.stripped_share) or any(part is not None for part in parts)
