"""Sessions in a scenario file: lengths, depths and think times as numbers or distributions."""

import math
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
    """Memoryless."""

    mean: Seconds


class LognormalSpec(Spec, tag_field="kind", tag="lognormal", frozen=True):
    """By median and sigma of the logarithm."""

    median: Positive
    sigma: Annotated[float, Meta(ge=0, le=5)]


class NormalSpec(Spec, tag_field="kind", tag="normal", frozen=True):
    """Cut to three standard deviations and zero."""

    mean: Positive
    std: Seconds


DistributionSpec = ConstantSpec | UniformSpec | ExponentialSpec | LognormalSpec | NormalSpec
Number = Annotated[float, Meta(ge=0, le=1e7)]


MOST_TURNS = 10_000


def _span(spec: "Number | DistributionSpec") -> tuple[float, float]:
    """Return about where a distribution's values lie."""
    match spec:
        case ConstantSpec():
            return spec.value, spec.value
        case UniformSpec():
            return spec.low, spec.high
        case ExponentialSpec():
            return spec.mean, 10 * spec.mean
        case LognormalSpec():
            return spec.median, spec.median * math.exp(4 * spec.sigma)
        case NormalSpec():
            return spec.mean, spec.mean + 3 * spec.std
    return float(spec), float(spec)


class WorkloadSpec(Spec, frozen=True):
    """One kind of session; a bare number is a constant."""

    shared_prefix_tokens: Tokens
    turns: Number | DistributionSpec
    new_tokens: Number | DistributionSpec
    output_tokens: Number | DistributionSpec
    think_s: Number | DistributionSpec = 0.0
    keeps_output: bool = True
    prefix_name: str | None = None  # sessions with prefixes of one name share them; background ones get their own

    def __post_init__(self) -> None:
        for name in ("turns", "new_tokens", "output_tokens"):
            value = getattr(self, name)
            least, most = _span(value)
            if least < 1 and not isinstance(value, NormalSpec | LognormalSpec | ExponentialSpec):
                raise ValueError(f"{name} {least:g} must be at least 1")
            if name == "turns" and most > MOST_TURNS:
                raise ValueError(f"turns up to {most:g} are more than the {MOST_TURNS:,} a session may have")
