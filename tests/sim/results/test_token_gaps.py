"""Gaps counted by step are those of the tokens, one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import logs, step_log, turn, turns

from sim.engine.record import TurnRecord
from sim.results.token_gaps import token_gaps
from sim.results.turn_table import table_of

SHARES = (0, 12.5, 50, 90, 95, 99, 100)


def expanded(records: list[TurnRecord]) -> np.ndarray:
    """Return every gap of every turn."""
    return np.concatenate([np.empty(0), *(np.diff(record.token_times_s) for record in records)])


@given(st.lists(logs(), min_size=1, max_size=3).flatmap(lambda some: st.lists(st.sampled_from(some).flatmap(turns))))
def test_percentiles_are_those_of_the_gaps_one_by_one(records: list[TurnRecord]) -> None:
    """On one to three engines, over stretches of any lengths; the mean, too."""
    gaps, every = token_gaps(table_of(records)), expanded(records)
    assert gaps.counts.sum() == len(every)
    assert np.all(gaps.counts > 0)
    if len(every):
        np.testing.assert_allclose(gaps.percentiles(SHARES), np.percentile(every, SHARES), rtol=1e-12, atol=0)
        assert gaps.mean() == pytest.approx(every.mean(), rel=1e-12)
    else:
        assert all(math.isnan(value) for value in gaps.percentiles(SHARES))


def test_a_gap_counts_as_often_as_it_was_seen() -> None:
    """Two turns see the second gap, one the others, and one waits from step 2 to step 5."""
    log = step_log([1.0, 3.0, 7.0, 15.0, 31.0, 63.0])
    gaps = token_gaps(table_of([turn(log, [2, 4]), turn(log, [1, 2, 5, 6]), turn(log, [3, 3])]))
    seen = sorted(zip(gaps.seconds.tolist(), gaps.counts.tolist(), strict=True))
    assert seen == [(2.0, 1), (4.0, 1), (8.0, 1), (28.0, 1), (32.0, 1)]
    twice = token_gaps(table_of([turn(log, [2, 4]), turn(log, [3, 4])]))
    assert sorted(zip(twice.seconds.tolist(), twice.counts.tolist(), strict=True)) == [(4.0, 1), (8.0, 2)]


def test_a_large_count_weighs_as_much_as_its_copies() -> None:
    """A million equal gaps and one long one: p99 is the short one, the largest the long one."""
    log = step_log([1.0, 2.0, 50.0])
    table = table_of([turn(log, [1, 2])] * 999 + [turn(log, [1, 3])])
    assert token_gaps(table).percentiles((50, 99, 100)) == [1.0, 1.0, 48.0]
