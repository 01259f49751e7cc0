"""What the proof on a machine runs, and in what order."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from calibrate.timing.layer_shape import layer_shape
from calibrate.timing.outcome import Outcome
from calibrate.timing.points import Point
from calibrate.validation.machine_load import busy_ticks, watch_others
from calibrate.validation.machine_plan import LIMITS, MODEL, STEPS, operation_points, step_plan
from calibrate.validation.machine_rounds import ROUNDS, Apparatus, Measured, measure_in_rounds


class Clock:
    """Stands still but for what is said to take time."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self.step_s = step_s
        self.steps: list[int] = []
        self.points: list[Point] = []
        self.shares_s: list[float] = []

    def time_step(self, step: int) -> float:
        """Take as long as a step does."""
        self.now_s += self.step_s
        self.steps.append(step)
        return float(step)

    def time_points(self, points: Sequence[Point], share_s: float) -> Outcome:
        """Use the share whole."""
        self.now_s += share_s
        self.points += points
        self.shares_s.append(share_s)
        return Outcome(rows=[{"point": str(point)} for point in points], left=1)

    def run(self, steps: int, points: Sequence[Point], budget_s: float) -> Measured:
        """Measure with this clock."""
        apparatus = Apparatus(self.time_step, self.time_points, now=lambda: self.now_s)
        return measure_in_rounds(steps, points, apparatus, budget_s, np.random.default_rng(0))


POINTS = [Point("copy", bytes=size) for size in range(1, 41)]


def test_the_plan_holds_each_kind_of_step_in_equal_parts() -> None:
    """The same seed draws the same steps, another one others."""
    plan = step_plan(STEPS, 0)
    assert Counter(step.kind for step in plan) == {"prefill": STEPS / 3, "mixed": STEPS / 3, "decode": STEPS / 3}
    assert plan == step_plan(STEPS, 0)
    assert plan != step_plan(STEPS, 1)


@pytest.mark.parametrize("seed", range(20))
def test_no_step_lies_beyond_what_operations_are_timed_for(seed: int) -> None:
    """Nothing is extrapolated: tokens, rows and contexts stay inside the grid."""
    for step in step_plan(STEPS, seed):
        assert all(chunk.new_tokens + chunk.past_tokens <= LIMITS.max_context_tokens for chunk in step.requests)
        assert len(step.decode_pasts) <= LIMITS.max_num_seqs
        assert step.tokens <= 2 * LIMITS.max_num_batched_tokens


def test_no_point_holds_more_than_one_operation() -> None:
    """A whole layer would tell the fit what lies between operations; each point is timed once."""
    points = operation_points(layer_shape(MODEL), "bf16", "cpu")
    assert {"layer", "peak_memory", "step"}.isdisjoint(point.operation for point in points)
    assert len({point.key for point in points}) == len(points)
    assert {"gemm", "head", "sampling", "elementwise", "prefill_attention", "decode_attention", "copy"} <= {
        point.operation for point in points
    }


def test_every_round_has_every_step_and_a_share_of_the_operations() -> None:
    """In a new order each time, and within the budget."""
    clock = Clock(step_s=0.1)
    measured = clock.run(5, POINTS, budget_s=60.0)
    rounds = [clock.steps[at : at + 5] for at in range(0, len(clock.steps), 5)]
    assert len(rounds) == ROUNDS
    assert all(sorted(one) == list(range(5)) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    assert sorted(map(str, clock.points)) == sorted(map(str, POINTS))
    assert clock.points != POINTS
    assert clock.now_s == pytest.approx(60.0)
    assert [timing.median_s for timing in measured.steps] == [0, 1, 2, 3, 4]
    assert all(timing.repeats == ROUNDS and timing.low_s is not None for timing in measured.steps)
    assert (len(measured.operations.rows), measured.operations.left) == (len(POINTS), ROUNDS)


def test_steps_too_slow_for_the_budget_leave_operations_their_least() -> None:
    """A slow machine takes longer than asked, but never skips operations for it."""
    clock = Clock(step_s=10.0)
    clock.run(3, POINTS, budget_s=20.0)
    assert min(clock.shares_s) >= 0.5 * len(POINTS) // ROUNDS
    assert len(clock.points) == len(POINTS)


def test_busy_ticks_leave_out_idling_and_guests() -> None:
    """Of the first line of /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice."""
    assert busy_ticks("cpu  1 2 4 800 1600 8 16 32 1000 1000\ncpu0 1 1 1\n") == 1 + 2 + 4 + 8 + 16 + 32
    assert busy_ticks("") is None


def test_others_are_never_less_than_idle() -> None:
    """Whatever the system's account, it is a number of CPUs."""
    assert watch_others()() >= 0
