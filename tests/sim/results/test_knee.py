"""The knee on made-up ratios, and the capacity under an SLO."""

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.results.knee import KNEE_RATIO, Knee, Ratios, find_knee, next_probe, past_knee, slo_capacity

GRID = [1, 6, 10, 12, 14, 20, 48]


def step_at(knee: int, seeds: int = 3) -> Callable[[int], list[float]]:
    """Return ratios that jump from 1 to 10 at a count."""
    return lambda count: [10.0 if count >= knee else 1.0] * seeds


def on_grid(ratios_at: Callable[[int], list[float]]) -> dict[int, list[float]]:
    """Return the ratios of the grid's counts."""
    return {count: ratios_at(count) for count in GRID}


def bisected(tested: Mapping[int, Ratios], ratios_at: Callable[[int], Ratios]) -> Knee:
    """Return the knee after probing until nothing is left to find out."""
    probed: dict[int, Ratios] = {}
    while (count := next_probe(tested, probed)) is not None:
        assert count not in probed
        probed[count] = ratios_at(count)
    return find_knee(tested, probed)


def test_a_point_is_past_the_knee_beyond_a_mean_ratio_of_three() -> None:
    """At three it is not; seeds without an answer are left out, and nothing known is not past."""
    assert not past_knee([KNEE_RATIO])
    assert past_knee([3.0001])
    assert past_knee([1.0, 6.0])
    assert not past_knee([1.0, 4.9])
    assert past_knee([math.nan, 4.0])
    assert not past_knee([math.nan, math.nan])
    assert not past_knee([])


def test_no_count_past_the_knee_is_no_knee() -> None:
    """All four are None, and nothing is bisected."""

    def fail(count: int) -> list[float]:
        raise AssertionError(count)

    assert bisected(on_grid(step_at(49)), fail) == Knee(None, None, None, None)
    assert bisected({}, fail) == Knee(None, None, None, None)


def test_without_bisection_the_knee_is_the_first_tested_count_past_it() -> None:
    """13 shows at 14 on this grid."""
    assert find_knee(on_grid(step_at(13))) == Knee(14, 14, 14, 14)


@given(st.integers(1, 48))
def test_bisection_finds_the_exact_count_and_tests_no_more_than_it_must(knee: int) -> None:
    """Wherever the jump is, in at most log2 of the gap it lies in."""
    asked: list[int] = []

    def ratios_at(count: int) -> list[float]:
        asked.append(count)
        return step_at(knee)(count)

    found = bisected(on_grid(step_at(knee)), ratios_at)
    grid = next(count for count in GRID if count >= knee)
    below = max((count for count in GRID if count < grid), default=0)
    assert found == Knee(grid, knee, knee, knee)
    assert len(asked) <= math.ceil(math.log2(grid - below))
    assert not set(asked) & set(GRID)


def test_a_first_point_already_past_the_knee_is_refined_down_to_one_session() -> None:
    """Below the smallest tested count there may be anything; one session is the least there is."""
    assert bisected({8: [9.0], 16: [9.0]}, lambda _: [9.0]) == Knee(8, 1, 1, 1)
    assert bisected({1: [9.0], 16: [9.0]}, lambda _: [9.0]) == Knee(1, 1, 1, 1)
    assert find_knee({8: [9.0]}) == Knee(8, 8, 8, 8)


def test_low_and_high_are_what_single_seeds_say() -> None:
    """Seed 0 alone breaks at 10, seed 2 at 14, and their mean at 12."""
    tested = {6: [1.0, 1.0, 1.0], 10: [4.0, 1.0, 1.0], 12: [9.0, 9.0, 1.0], 14: [9.0, 9.0, 9.0]}
    assert find_knee(tested) == Knee(12, 12, 10, 14)


def test_a_seed_that_never_breaks_or_is_unknown_gives_no_bound() -> None:
    """Its NaN is left out, of the mean and of the range."""
    assert find_knee({6: [1.0, math.nan], 12: [20.0, math.nan]}) == Knee(12, 12, 12, 12)
    assert find_knee({6: [1.0, 1.0], 12: [20.0, 1.0]}) == Knee(12, 12, 12, 12)
    assert find_knee({6: [math.nan], 12: [math.nan]}) == Knee(None, None, None, None)


def test_an_order_of_counts_that_wanders_does_not_matter() -> None:
    """Mappings need not be sorted."""
    assert find_knee({14: [9.0], 1: [1.0], 12: [1.0]}) == Knee(14, 14, 14, 14)


@pytest.mark.parametrize(
    ("met", "capacity"),
    [
        ([True, True, True], 12),
        ([True, True, False], 6),
        ([True, False, True], 1),  # stops at the first break: nobody deploys at 12 when 6 fails
        ([False, True, True], None),
    ],
)
def test_slo_capacity_stops_at_the_first_break(met: list[bool], capacity: int | None) -> None:
    """The largest count that holds with every count below it."""
    assert slo_capacity([1, 6, 12], met) == capacity
    assert slo_capacity([12, 6, 1], met[::-1]) == capacity


def test_no_counts_hold_nothing() -> None:
    """An empty sweep has no capacity."""
    assert slo_capacity([], []) is None
