"""Seconds of one engine step, fitted on whole steps: for engines whose steps were recorded, but no kernel was timed.

    step = per step + [prefill?] + tokens + prefill pairs + decode rows + decode KV tokens

Every token passes the same layers, so a decode row is priced as a token and as a row: runs with few rows a step hardly
tell a row's cost from that of its context, prefills tell what a token costs. Linear in the batch's sums, so it holds
for an engine whose cost has no steps of its own in that range (a CPU, say). The terms are collinear in any one
workload: together they predict, singly they mean little.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sim.steptime.ahead import Stretch, ends_one_by_one
from sim.steptime.batch import BatchShape
from sim.steptime.profile import Term

STRETCH_STEPS = 200


class StepTerms(NamedTuple):
    """What a step's time is linear in."""

    step: float
    prefill_step: float
    token: float
    prefill_pair: float
    decode_row: float
    decode_kv_token: float


def step_terms(batch: BatchShape) -> StepTerms:
    """Return a batch's terms, to be multiplied by the coefficients in the same order."""
    return StepTerms(
        step=1.0,
        prefill_step=float(batch.holds_prefill),
        token=float(batch.tokens),
        prefill_pair=batch.prefill_pairs,
        decode_row=float(batch.decode_rows),
        decode_kv_token=float(batch.decode_kv_tokens),
    )


class WholeSteps(msgspec.Struct, frozen=True, kw_only=True):
    """Coefficients in seconds a unit, each with the interval its fit gives it."""

    shared_tokens_read_once: ClassVar[float] = 0.0

    per_step_s: Term
    per_prefill_step_s: Term
    per_token_s: Term
    per_prefill_pair_s: Term
    per_decode_row_s: Term
    per_decode_kv_token_s: Term

    @property
    def coefficients_s(self) -> tuple[float, ...]:
        """The six values, in the order of StepTerms."""
        terms = (
            self.per_step_s,
            self.per_prefill_step_s,
            self.per_token_s,
            self.per_prefill_pair_s,
            self.per_decode_row_s,
            self.per_decode_kv_token_s,
        )
        return tuple(term.value for term in terms)

    def seconds(self, batch: BatchShape) -> float:
        """Return how long the step takes."""
        return float(np.dot(step_terms(batch), self.coefficients_s))

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends."""
        return ends_one_by_one(self.seconds, stretch)


@dataclass(slots=True)
class Scatter:
    """Factors by which single steps were off their price, replayed in stretches from random places.

    In the order they were measured, for a machine drifts: after a slow step the next ones are slow too.
    """

    factors: NDArray[np.float64]
    rng: np.random.Generator
    _next: int = 0
    _left: int = 0

    def factor(self) -> float:
        """Return the next step's factor."""
        if not self._left:
            self._next, self._left = int(self.rng.integers(len(self.factors))), STRETCH_STEPS
        value = float(self.factors[self._next])
        self._next, self._left = (self._next + 1) % len(self.factors), self._left - 1
        return value


@dataclass(frozen=True, slots=True)
class ScatteredSteps:
    """One draw of an engine: coefficients within their uncertainty, every step off its price as measured ones were.

    Near the knee a small change of timing decides which session is evicted, and the loop feeds it back: a run
    without scatter is one draw of many, as one real run is.
    """

    coefficients_s: tuple[float, ...]
    prefill: Scatter
    decode: Scatter
    shared_tokens_read_once: float = 0.0

    def seconds(self, batch: BatchShape) -> float:
        """Return how long the step takes this time."""
        scatter = self.prefill if batch.holds_prefill else self.decode
        return float(np.dot(step_terms(batch), self.coefficients_s)) * scatter.factor()

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends this time."""
        return ends_one_by_one(self.seconds, stretch)
