"""Measures in rounds: in each, every step once and a share of the operations, both in random order.

A machine drifts over minutes: clocks, neighbours. Rounds spread steps and operations evenly over the whole time, so
that the drift is in both alike and not between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from calibrate.timing.outcome import Outcome
from calibrate.timing.points import Point
from calibrate.timing.stopwatch import Timing, median_interval

ROUNDS = 9  # the interval of a median of nine lies between the second and the eighth
_LEAST_POINT_S = 0.5  # for each operation, however slow the steps are


@dataclass(frozen=True, slots=True)
class Apparatus:
    """What measures. `time_step` runs the step of that number once; `time_points` times points within seconds."""

    time_step: Callable[[int], float]
    time_points: Callable[[Sequence[Point], float], Outcome]
    on_progress: Callable[[int, float], None] = lambda _done, _left_s: None  # rounds done, seconds left
    now: Callable[[], float] = monotonic


@dataclass(slots=True)
class Measured:
    """A timing for each step, and what became of the operations."""

    steps: list[Timing] = field(default_factory=list)
    operations: Outcome = field(default_factory=Outcome)


def measure_in_rounds(
    steps: int, points: Sequence[Point], apparatus: Apparatus, budget_s: float, rng: np.random.Generator
) -> Measured:
    """Time `steps` steps `ROUNDS` times and every point once, in at most `budget_s` seconds where that suffices."""
    started = apparatus.now()
    samples: list[list[float]] = [[] for _ in range(steps)]
    measured = Measured()
    shuffled = [points[place] for place in rng.permutation(len(points))]
    for done in range(ROUNDS):
        round_started = apparatus.now()
        apparatus.on_progress(done, budget_s - (round_started - started))
        for step in rng.permutation(steps):
            samples[step].append(apparatus.time_step(int(step)))
        steps_s = apparatus.now() - round_started
        left_s = budget_s - (apparatus.now() - started) - (ROUNDS - 1 - done) * steps_s
        turn = shuffled[done::ROUNDS]
        share_s = max(left_s / (ROUNDS - done), _LEAST_POINT_S * len(turn))
        _add(measured.operations, apparatus.time_points(turn, share_s))
    measured.steps = [median_interval(of_step) for of_step in samples]
    return measured


def _add(total: Outcome, more: Outcome) -> None:
    total.rows += more.rows
    total.skipped += more.skipped
    total.left += more.left
