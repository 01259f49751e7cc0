"""Turns as rows of numbers: what a record says, for some of them or all."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from turns import logs, step_log, turn, turns

from sim.engine.record import Outcome, TurnRecord
from sim.results.turn_table import OUTCOMES, TableBuilder, table_of

LOG = step_log([1.0, 2.0, 4.0])


def test_a_row_holds_what_its_record_says() -> None:
    """Times, counts, and how many tokens came; names are numbers."""
    record = turn(LOG, [1, 1, 3, 3])
    record.hit_tokens, record.preemptions, record.turn = 48, 2, 5
    other = turn(LOG, [1, 3])
    other.population = "background"
    table = table_of([record, other])
    row = table.turns[0]
    assert (row["hit_tokens"], row["preemptions"], row["turn"], row["prompt_tokens"]) == (48, 2, 5, 100)
    assert (row["arrival_s"], row["first_token_s"], row["last_token_s"], row["stretches"]) == (0.0, 1.0, 4.0, 2)
    assert table.received_tokens().tolist() == [2, 3]
    assert table.of("background").turns.tolist() == table.turns[1:].tolist()
    assert table.of("background").stretches.tolist() == [[1, 3]]
    assert len(table.of("nobody").turns) == 0


def test_what_became_of_a_turn_is_kept_and_counted() -> None:
    """An unfinished turn knows when its first token came, but has no first token time of a completed one."""
    unfinished = turn(LOG, [2, 3], Outcome.UNFINISHED)
    waiting = turn(None, [], Outcome.UNFINISHED)
    refused = turn(None, [], Outcome.REFUSED)
    table = table_of([turn(LOG, [1, 2]), unfinished, waiting, refused, turn(LOG, [1, 1], Outcome.ABORTED)])
    assert [table.count(outcome) for outcome in OUTCOMES] == [1, 2, 1, 1, 0, 0, 0]
    assert [OUTCOMES[code] for code in table.turns["outcome"]][1] is Outcome.UNFINISHED
    assert len(table.completed().turns) == 1
    assert table.turns["first_seen_s"][:2].tolist() == [1.0, 2.0]
    assert math.isnan(table.turns["first_seen_s"][2])
    assert math.isnan(table.turns["first_token_s"][1])
    assert table.received_tokens().tolist() == [2, 2, 0, 0, 1]


@given(logs().flatmap(lambda log: st.lists(turns(log), max_size=12)), st.lists(st.integers(0, 12), max_size=4))
def test_added_in_parts_or_all_at_once_is_the_same(records: list[TurnRecord], cuts: list[int]) -> None:
    """A builder returns each part, and then all of it."""
    builder = TableBuilder()
    places = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    for start, stop in pairwise(places):
        assert len(builder.add(records[start:stop]).turns) == stop - start
    whole, parts = table_of(records), builder.table()
    assert repr(parts.turns.tolist()) == repr(whole.turns.tolist())
    assert np.array_equal(parts.stretches, whole.stretches)
    assert whole.received_tokens().tolist() == [len(record.token_times_s) for record in records]


def test_a_table_of_nothing_is_empty() -> None:
    """It has no rows, and can still be asked."""
    table = TableBuilder().table()
    assert (len(table.turns), len(table.stretches), len(table.received_tokens())) == (0, 0, 0)
    assert len(table.of("session").completed().turns) == 0
