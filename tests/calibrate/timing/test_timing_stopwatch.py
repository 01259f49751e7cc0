from collections.abc import Callable
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.timing.stopwatch import median_interval, time_until_tight


class Clock:
    """A clock that samples push forward."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return seconds."""
        return self.now_s

    def samples(self, *times_s: float) -> Callable[[], float]:
        """Return a sample that takes each of these times in turn."""
        turn = cycle(times_s)

        def sample() -> float:
            time_s = next(turn)
            self.now_s += time_s
            return time_s

        return sample


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=60))
def test_the_interval_holds_the_median_and_exists_from_six_samples_on(samples: list[float]) -> None:
    """Six samples are the fewest whose range covers the median with 95 %."""
    timing = median_interval(samples)
    assert timing.median_s == np.median(samples)
    assert (timing.low_s is None) == (timing.high_s is None) == (len(samples) < 6)
    if timing.low_s is not None and timing.high_s is not None:
        assert timing.low_s <= timing.median_s <= timing.high_s


@pytest.mark.parametrize("count", [6, 7, 12, 31])
def test_the_interval_covers_the_true_median_of_a_skewed_distribution(count: int) -> None:
    """At least 95 % of intervals hold the median, as order statistics promise for any distribution."""
    random = np.random.default_rng(count)
    draws = random.lognormal(size=(2000, count))
    timings = [median_interval(list(row)) for row in draws]
    covered = np.mean([t.low_s is not None and t.high_s is not None and t.low_s <= 1 <= t.high_s for t in timings])
    assert 0.94 <= covered < 1


def test_a_steady_operation_is_timed_six_times() -> None:
    """The fewest samples that have an interval suffice when they agree."""
    clock = Clock()
    timing = time_until_tight(clock.samples(0.1), 100.0, now=clock)
    assert (timing.repeats, timing.median_s) == (6, 0.1)


def test_a_noisy_operation_is_repeated_until_its_median_is_known() -> None:
    """Samples 10 % apart keep the interval wide until the share or the repeats are used."""
    clock = Clock()
    assert time_until_tight(clock.samples(0.9, 1.1), 1e6, most_repeats=50, now=clock).repeats == 50
    clock = Clock()
    assert time_until_tight(clock.samples(0.9, 1.1), 20.0, now=clock).repeats in range(18, 22)


def test_a_slow_operation_gets_three_samples_and_no_interval() -> None:
    """Beyond its share a point is timed three times, and says that this is too few for an interval."""
    clock = Clock()
    timing = time_until_tight(clock.samples(5.0, 6.0, 7.0), 1.0, now=clock)
    assert timing.repeats == 3
    assert timing.low_s is None
