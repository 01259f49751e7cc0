"""Mixtures, bounds and quantiles draw what they state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import Bounded, Constant, Distribution, Lognormal, Mixture, Quantiles, Uniform, WorkloadError

DRAWS = 20_000
ALL = [
    Mixture((0.87, 0.13), (Lognormal(9, 1.0), Lognormal(127, 1.0))),
    Mixture((3, 1), (Constant(2), Constant(10))),
    Bounded(Lognormal(100, 1.5), 20, 4000),
    Quantiles((0, 0.25, 0.5, 0.75, 1), (1, 5, 9, 19, 700)),
    Quantiles((0, 1), (0, 1)),
]


def draws(of: Distribution, seed: int = 7) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return many draws."""
    rng = np.random.default_rng(seed)
    return np.array([of.draw(rng) for _ in range(DRAWS)])


@pytest.mark.parametrize("of", ALL, ids=repr)
def test_the_stated_mean_is_the_drawn_mean(of: Distribution) -> None:
    """Within five standard errors, none of them negative."""
    values = draws(of)
    assert values.min() >= 0
    assert abs(values.mean() - of.mean) <= 5 * values.std() / DRAWS**0.5 * 2**0.5 + 1e-12


def test_parts_come_by_weight() -> None:
    """Three of four are the first."""
    values = draws(ALL[1])
    assert np.mean(values == 2) == pytest.approx(0.75, abs=0.02)
    assert ALL[1].mean == 4


def test_bounds_cut_the_tails_off_and_pile_nothing_up() -> None:
    """A clipped distribution would have a sixth of its draws at the bounds."""
    values = draws(ALL[2])
    assert values.min() >= 20
    assert values.max() <= 4000
    assert np.mean((values == 20) | (values == 4000)) == 0
    assert np.median(values) == pytest.approx(129, rel=0.05)  # where the cut normal curve has its half


def test_bounds_that_hold_nearly_nothing_end_at_the_nearer_one() -> None:
    """And do not try for ever."""
    assert Bounded(Constant(5), 8, 9).draw(np.random.default_rng(0)) == 8


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20).map(sorted), st.integers(0, 2**32))
def test_quantiles_stay_within_their_values_and_hit_their_median(values: list[float], seed: int) -> None:
    """Whatever values; ties are fine."""
    shares = tuple(np.linspace(0, 1, len(values)))
    of = Quantiles(shares, tuple(values))
    rng = np.random.default_rng(seed)
    drawn = [of.draw(rng) for _ in range(50)]
    assert min(drawn) >= values[0] * (1 - 1e-9)
    assert max(drawn) <= values[-1] * (1 + 1e-9) + 1e-9
    assert values[0] * (1 - 1e-9) <= of.mean <= values[-1] * (1 + 1e-9) + 1e-9


def test_quantiles_are_hit() -> None:
    """Each of them, within its standard error."""
    values = draws(ALL[3])
    for share, value in ((0.25, 5), (0.5, 9), (0.75, 19)):
        assert np.mean(values <= value) == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixture((), ()), "0 parts"),
        (lambda: Mixture((1,), (Constant(1), Constant(2))), "2 parts needs as many weights, not 1"),
        (lambda: Mixture((0, 0), (Constant(1), Constant(2))), "not all 0"),
        (lambda: Mixture((float("nan"), 1), (Constant(1), Constant(2))), "must be finite"),
        (lambda: Bounded(Uniform(0, 1), 5, 4), "bounds 5 to 4 must ascend"),
        (lambda: Bounded(Uniform(0, 1), float("nan"), 4), "must ascend"),
        (lambda: Quantiles((0, 1), (1,)), "2 shares and 1 values"),
        (lambda: Quantiles((0, 0.5), (1, 2)), "must ascend from 0 to 1"),
        (lambda: Quantiles((0, 0.5, 0.5, 1), (1, 2, 3, 4)), "must ascend from 0 to 1"),
        (lambda: Quantiles((0, 1), (2, 1)), "values"),
        (lambda: Quantiles((0, 1), (1, float("inf"))), "values"),
        (lambda: Quantiles((0, 1), (-1, 1)), "values"),
    ],
)
def test_impossible_parameters_are_refused(make: "type[Mixture]", message: str) -> None:
    """With a line that says which."""
    with pytest.raises(WorkloadError, match=message):
        make()  # type: ignore[call-arg]
