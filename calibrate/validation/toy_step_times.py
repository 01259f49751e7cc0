"""Step times of the toy: measured at sizes of its own, and the curve through them that prices any batch.

A step costs a piecewise linear amount by its rows, and more by prompt, by pair attended to, for having decode rows at
all, by decode row and by KV token read. None may be negative; relative residuals are made small (NNLS).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from calibrate.timing.small_transformer_batch import Chunk, StepBatch
from calibrate.validation.toy_model import Toy
from sim.steptime.ahead import Stretch, ends_one_by_one
from sim.steptime.batch import BatchShape

_KNOTS = (1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 512)
_PROMPTS = (4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 127)  # without a cache, passes are as long as prompt and answer
_ROWS, _PASTS = (1, 2, 4, 8, 12, 16), (12, 40, 64, 110)


def measured_steps() -> tuple[StepBatch, ...]:
    """Return the steps that are timed: prompts alone and together, decodes, and both."""
    prompts = [StepBatch((Chunk(new, 0),)) for new in _PROMPTS]
    together = [StepBatch((Chunk(new, 0),) * count) for new, count in product((12, 32), (2, 4, 8, 16))]
    decodes = [StepBatch(decode_pasts=(past,) * rows) for rows, past in product(_ROWS, _PASTS)]
    mixed = [StepBatch((Chunk(new, 0),), (past,) * rows) for new, rows, past in product((8, 20, 32), (7, 15), (30, 70))]
    return (*prompts, *together, *decodes, *mixed)


class Stopwatches:
    """Times of each measured step, round by round, so that a machine that slows down slows all of them."""

    def __init__(self, toy: Toy, seed: int) -> None:
        self._toy = toy
        self._rng = np.random.default_rng(seed)
        self.steps = measured_steps()
        self._times_s: list[list[float]] = [[] for _ in self.steps]

    def round(self, times: int = 3) -> None:
        """Time every step so often, in an order of its own."""
        for place in self._rng.permutation(np.repeat(np.arange(len(self.steps)), times)):
            self._times_s[place].append(self._time(self.steps[place]))

    def medians_s(self) -> list[float]:
        """Return the median of each step."""
        return [median(times) for times in self._times_s]

    def _time(self, batch: StepBatch) -> float:
        seats = [self._toy.seat(request.past_tokens + request.new_tokens) for request in batch.requests]
        chunks = list(zip(seats, batch.chunks, strict=False))
        rows = list(zip(seats[len(chunks) :], batch.decode_pasts, strict=True))
        _, took_s = self._toy.step(chunks, rows)
        for seat in seats:
            self._toy.leave(seat)
        return took_s


@dataclass(frozen=True, slots=True)
class ToyPrices:
    """Seconds of any step, as the engine asks for them."""

    weights: NDArray[np.float64]
    shared_tokens_read_once: float = 0.0

    def seconds(self, batch: BatchShape) -> float:
        """Return how long a step takes."""
        return float(_features(batch) @ self.weights)

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends."""
        return ends_one_by_one(self.seconds, stretch)


def fit_prices(steps: Sequence[StepBatch], seconds: Sequence[float]) -> ToyPrices:
    """Return the prices that come nearest to measured steps."""
    features = np.array([_features(batch.shape) for batch in steps])
    scale = 1 / np.array(seconds)
    weights, _ = nnls(features * scale[:, None], np.ones(len(scale)))
    return ToyPrices(weights)


def _features(batch: BatchShape) -> NDArray[np.float64]:
    return np.array([*_hats(batch.tokens), *_others(batch)])


def _others(batch: BatchShape) -> Iterator[float]:
    yield batch.sampled - batch.decode_rows  # prompts
    yield batch.prefill_pairs
    yield float(batch.decode_rows > 0)
    yield batch.decode_rows
    yield batch.decode_kv_tokens


def _hats(tokens: int) -> list[float]:
    """Return the weights of the knots around a number of rows; the last slope goes on."""
    knots = _KNOTS
    place = min(max(int(np.searchsorted(knots, tokens, side="right")) - 1, 0), len(knots) - 2)
    share = (tokens - knots[place]) / (knots[place + 1] - knots[place])
    weights = [0.0] * len(knots)
    weights[place], weights[place + 1] = 1 - share, share
    return weights
