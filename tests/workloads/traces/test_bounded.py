"""Distributions by min, max, mean and standard deviation: moments where no bound is near, bounds always."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import WorkloadError
from workloads.traces.bounded import KINDS, Bounded, checked, constant


def drawn(one: Bounded, count: int = 20_000) -> np.ndarray:
    """Return many draws."""
    rng = np.random.default_rng(5)
    return np.array([one.draw(rng) for _ in range(count)])


@pytest.mark.parametrize(
    ("one", "mean", "std_dev"),
    [
        (Bounded("normal", 0, 1e6, 500, 50), 500, 50),
        (Bounded("lognormal", 0, 1e9, 1652, 3000), 1652, 3000),
        (Bounded("exponential", 2000, 1e9, 45_000, 35_000), 45_000, 43_000),
        (Bounded("bimodal", 50, 4000, 300, 850), 300, 850),
        (Bounded("bimodal", 1000, 80_000, 15_000, 22_000), 15_000, 22_000),
        (Bounded("poisson", 0, 1000, 40, 0), 40, math.sqrt(40)),
        (Bounded("uniform", 10, 30, 0, 0), 20.48, math.sqrt(21**2 / 12)),
        (Bounded("fixed", 10, 1024, 1, 200), 1, 0),
        (Bounded("skew_normal", -1e6, 1e6, 200, 80, 0.0), 200, 80),
        (constant(7), 7, 0),
        (Bounded("lognormal", 0, 9, 1e-308, 1e9), 0.0, 0.0),
        (Bounded("bimodal", 0, 1, 1e-300, 1e-300), 0.0, 0.0),
    ],
)
def test_moments_come_out(one: Bounded, mean: float, std_dev: float) -> None:
    """Within what so many draws allow."""
    values = drawn(one)
    assert values.mean() == pytest.approx(mean, rel=0.05, abs=0.05)
    assert values.std() == pytest.approx(std_dev, rel=0.15, abs=0.05)


def test_skew_moves_the_mean_as_azzalini_has_it() -> None:
    """Location plus deviation times delta times the root of 2 over pi."""
    delta = 2.5 / math.hypot(1, 2.5)
    values = drawn(Bounded("skew_normal", -1e6, 1e6, 200, 80, 2.5))
    assert values.mean() == pytest.approx(200 + 80 * delta * math.sqrt(2 / math.pi), rel=0.02)


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(set(KINDS) - {"fixed"})),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.floats(0, 1),
    st.floats(0, 1e9),
)
def test_draws_stay_inside_their_bounds(kind: str, low: float, width: float, share: float, std_dev: float) -> None:
    """Whatever the numbers of a file."""
    one = checked("x", Bounded(kind, low, low + width, max(low + share * width, 1e-9), std_dev, 3.0)) if width else None
    rng = np.random.default_rng(1)
    for _ in range(20 if one else 0):
        assert one is not None
        assert low <= one.draw(rng) <= low + width


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (Bounded("lognormall", 0, 1, 1), "x: distribution 'lognormall' is not one of .*did you mean 'lognormal'"),
        (Bounded("normal", 2, 1, 1), "x: min 2 is above max 1"),
        (Bounded("lognormal", 0, 9, 0, 1), "x: mean 0 of a lognormal must be above 0"),
        (Bounded("exponential", 5, 9, 2), "x: mean 2 is not between min 5 and max 9"),
        (Bounded("bimodal", 5, 9, 12), "x: mean 12 is not between"),
    ],
)
def test_contradictions_are_refused(one: Bounded, message: str) -> None:
    """With the place they were found at."""
    with pytest.raises(WorkloadError, match=message):
        checked("x", one)
