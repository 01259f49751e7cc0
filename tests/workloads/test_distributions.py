"""Distributions draw around the mean they state, never below zero, and the same for the same seed."""

from collections.abc import Callable

import numpy as np
import pytest

from workloads import Constant, Distribution, Exponential, Lognormal, Normal, Uniform, WorkloadError, whole

ALL = [
    Constant(3.5),
    Uniform(2, 8),
    Exponential(4),
    Lognormal(100, 0.6),
    Normal(50, 5),
]
DRAWS = 20_000


@pytest.mark.parametrize("of", ALL, ids=repr)
def test_the_stated_mean_is_the_drawn_mean(of: Distribution) -> None:
    """Within five standard errors of 20,000 draws, none of them negative."""
    rng = np.random.default_rng(7)
    values = np.array([of.draw(rng) for _ in range(DRAWS)])
    assert values.min() >= 0
    assert abs(values.mean() - of.mean) <= 5 * values.std() / DRAWS**0.5 + 1e-12


@pytest.mark.parametrize("of", ALL, ids=repr)
def test_the_same_seed_draws_the_same(of: Distribution) -> None:
    """Nothing but the generator passed in is random."""
    first, second = ([of.draw(rng) for _ in range(5)] for rng in map(np.random.default_rng, (3, 3)))
    assert first == second


def test_lognormal_is_given_by_its_median() -> None:
    """Half of the draws lie below it."""
    rng = np.random.default_rng(1)
    assert np.median([Lognormal(100, 1.0).draw(rng) for _ in range(DRAWS)]) == pytest.approx(100, rel=0.05)


def test_normal_is_cut_at_three_deviations_and_at_zero() -> None:
    """No outlier, no negative length."""
    rng = np.random.default_rng(1)
    values = [Normal(10, 5).draw(rng) for _ in range(DRAWS)]
    assert min(values) == 0.0
    assert max(values) == 25.0


def test_whole_rounds_and_keeps_one() -> None:
    """A length is a count of at least one."""
    rng = np.random.default_rng(0)
    assert [whole(Constant(value), rng) for value in (0.0, 0.4, 1.6, 7.0)] == [1, 1, 2, 7]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "make",
    [
        Constant,
        Exponential,
        lambda bad: Uniform(bad, 5),
        lambda bad: Uniform(0, bad),
        lambda bad: Lognormal(bad, 1),
        lambda bad: Lognormal(1, bad),
        lambda bad: Normal(bad, 1),
        lambda bad: Normal(1, bad),
    ],
)
def test_impossible_parameters_are_refused(make: Callable[[float], Distribution], bad: float) -> None:
    """Negative, infinite or not a number."""
    with pytest.raises(WorkloadError, match="must be a finite number of at least"):
        make(bad)


def test_uniform_ends_not_before_it_begins() -> None:
    """High below low is refused, equal is a constant."""
    assert Uniform(4, 4).draw(np.random.default_rng(0)) == 4
    with pytest.raises(WorkloadError, match="high 2 must be a finite number of at least 3"):
        Uniform(3, 2)
