"""Step times of the toy: measured at sizes of its own, and the curve through them that prices any batch.

A step costs a piecewise linear amount by its rows, and more by prompt, by pair attended to, for having decode rows at
all, by decode row and by KV token read. None may be negative; relative residuals are made small (NNLS).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import trim_mean

from calibrate.timing.small_transformer_batch import Chunk, StepBatch
from calibrate.validation.toy_model import Toy
from sim.steptime.ahead import Stretch, ends_one_by_one
from sim.steptime.batch import BatchShape

_KNOTS = (1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 512)
_PROMPTS = (4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 127)  # without a cache, passes are as long as prompt and answer
_GOES = 2
_TRIMMED = 0.1  # at either end: one hiccup in forty goes would move a mean that stands for thousands of steps
_WARM_UP_S = 0.01  # a step of one row takes 1.24 ms after others unlike it, and 0.86 ms from the eighth in a row on
_ROWS, _PASTS = (1, 2, 4, 8, 12, 16), (12, 40, 64, 110)


def measured_steps() -> tuple[StepBatch, ...]:
    """Return the steps that are timed: prompts alone and together, decodes, and both."""
    prompts = [StepBatch((Chunk(new, 0),)) for new in _PROMPTS]
    together = [StepBatch((Chunk(new, 0),) * count) for new, count in product((12, 32), (2, 4, 8, 16))]
    decodes = [StepBatch(decode_pasts=(past,) * rows) for rows, past in product(_ROWS, _PASTS)]
    mixed = [StepBatch((Chunk(new, 0),), (past,) * rows) for new, rows, past in product((8, 20, 32), (7, 15), (30, 70))]
    return (*prompts, *together, *decodes, *mixed)


class Stopwatches:
    """Times of each measured step, a few at a time: a machine that slows down slows them and the queue alike."""

    def __init__(self, toy: Toy, seed: int) -> None:
        self._toy = toy
        self._rng = np.random.default_rng(seed)
        self.steps = measured_steps()
        self._times_s: list[list[float]] = [[] for _ in self.steps]
        self._due: list[int] = []

    def time_some(self, count: int) -> None:
        """Time so many of the steps, in random order, each once it has run as long as one among its like."""
        for _ in range(count):
            if not self._due:
                self._due = self._rng.permutation(len(self.steps)).tolist()
            place = self._due.pop()
            warmed_s = 0.0
            while warmed_s < _WARM_UP_S:
                warmed_s += self._time(self.steps[place])
            self._times_s[place] += [self._time(self.steps[place]) for _ in range(_GOES)]

    def take_means_s(self) -> list[float]:
        """Return the trimmed mean of each step since the last call, after a last go at all of them."""
        self._due.clear()
        self.time_some(len(self.steps))
        means_s = [float(trim_mean(times, _TRIMMED)) for times in self._times_s]
        self._times_s = [[] for _ in self.steps]
        return means_s

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
