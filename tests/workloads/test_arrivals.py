"""Arrivals ascend without end at the rate they state; starts give each client one offset."""

from collections.abc import Callable
from itertools import islice, pairwise

import numpy as np
import pytest

from workloads import Arrivals, Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart, Start, WorkloadError

OPEN = [Poisson(5.0), ConstantRate(5.0), Bursts(10, 2.0), Bursts(10, 2.0, jitter_s=1.5)]


def first(arrivals: Arrivals, count: int, seed: int = 0) -> list[float]:
    """Return the first `count` arrivals."""
    return list(islice(arrivals.times(np.random.default_rng(seed)), count))


@pytest.mark.parametrize("arrivals", OPEN, ids=repr)
def test_arrivals_ascend_at_the_stated_rate(arrivals: Poisson | ConstantRate | Bursts) -> None:
    """20,000 arrivals take as long as the rate says, within five standard errors of a Poisson count."""
    times = first(arrivals, 20_000)
    assert times[0] >= 0
    assert all(earlier <= later for earlier, later in pairwise(times))
    assert 20_000 / times[-1] == pytest.approx(arrivals.rate_per_s, rel=5 / 20_000**0.5)


@pytest.mark.parametrize("arrivals", OPEN, ids=repr)
def test_the_same_seed_arrives_at_the_same_times(arrivals: Arrivals) -> None:
    """As plain floats."""
    assert first(arrivals, 50) == first(arrivals, 50)
    assert all(type(time) is float for time in first(arrivals, 50))


def test_poisson_gaps_scatter_as_much_as_their_mean() -> None:
    """The mark of a memoryless stream."""
    gaps = np.diff(first(Poisson(5.0), 20_000))
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)


def test_a_constant_rate_has_equal_gaps() -> None:
    """To the last bit, far out too: times are not summed up."""
    assert np.diff(first(ConstantRate(4.0), 10_000)).tolist() == [0.25] * 9_999


def test_bursts_come_together_each_interval() -> None:
    """The first at 0."""
    assert first(Bursts(3, 10.0), 7) == [0, 0, 0, 10, 10, 10, 20]


def test_jitter_delays_within_its_bound() -> None:
    """Nobody comes early, nobody later than the jitter allows, and not all at once."""
    late = np.array(first(Bursts(100, 10.0, 2.0), 1000)).reshape(10, 100) - 10.0 * np.arange(10)[:, None]
    assert late.min() >= 0
    assert late.max() <= 2
    assert len(np.unique(late)) > 900


def test_a_common_start_is_at_zero_give_or_take_the_jitter() -> None:
    """One offset a client."""
    rng = np.random.default_rng(0)
    assert CommonStart().offsets_s(4, rng) == [0.0] * 4
    late = CommonStart(3.0).offsets_s(500, rng)
    assert len(late) == 500
    assert 0 <= min(late) < 1
    assert 2 < max(late) <= 3


@pytest.mark.parametrize("clients", [1, 2, 7])
def test_a_staggered_start_is_evenly_spread(clients: int) -> None:
    """From 0, in equal steps, without randomness."""
    offsets = StaggeredStart(10.0).offsets_s(clients, np.random.default_rng(0))
    assert offsets == pytest.approx([10.0 * client / clients for client in range(clients)])


@pytest.mark.parametrize("start", [CommonStart(), CommonStart(1.0), StaggeredStart(5.0)], ids=repr)
def test_nobody_starts_where_nobody_is(start: Start) -> None:
    """No clients, no offsets."""
    assert start.offsets_s(0, np.random.default_rng(0)) == []


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [Poisson, ConstantRate, lambda bad: Bursts(1, bad)])
def test_rates_and_intervals_are_above_zero(make: Callable[[float], Arrivals], bad: float) -> None:
    """And finite."""
    with pytest.raises(WorkloadError, match="must be a finite number above 0"):
        make(bad)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [CommonStart, StaggeredStart, lambda bad: Bursts(1, 1.0, bad)])
def test_jitter_and_spread_are_not_negative(make: Callable[[float], object], bad: float) -> None:
    """And finite."""
    with pytest.raises(WorkloadError, match="must be a finite number of at least 0"):
        make(bad)


def test_bursts_hold_somebody_and_stay_apart() -> None:
    """An empty burst is refused, and a jitter that reaches into the next."""
    with pytest.raises(WorkloadError, match="burst_size 0 must be at least 1"):
        Bursts(0, 1.0)
    with pytest.raises(WorkloadError, match="jitter_s"):
        Bursts(1, 1.0, jitter_s=1.5)
