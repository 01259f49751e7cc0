"""Workloads of a driven engine."""

from hypothesis import given
from hypothesis import strategies as st

from calibrate.validation.cliff_workload import Shape, draw_workload

SHAPE = Shape(
    shared=512, first=(256, 512), grow=(160, 320), out=(24, 48), turns=8, turns_per_slot=16, think=(0.5, 1.5),
    stagger=0.4,
)  # fmt: skip
counts = st.integers(1, 20)
seeds = st.integers(0, 2**31)


@given(counts, counts, seeds)
def test_more_slots_meet_the_same_first_ones(few: int, many: int, seed: int) -> None:
    """A slot depends on seed and number alone, so sweeps over the number of sessions compare like with like."""
    few, many = sorted((few, many))
    fewer = draw_workload("agent", SHAPE, sessions=few, seed=seed)
    assert draw_workload("agent", SHAPE, sessions=many, seed=seed).slots[:few] == fewer.slots


@given(counts, seeds)
def test_every_turn_lies_in_its_ranges_and_sessions_end_where_they_should(sessions: int, seed: int) -> None:
    """Tokens and pauses keep to the ranges; no session is longer than a full one; the first turn does not wait."""
    for slot in draw_workload("agent", SHAPE, sessions=sessions, seed=seed).slots:
        assert len(slot.turns) == SHAPE.turns_per_slot
        assert slot.turns[0].think == 0
        for turn in slot.turns:
            low, high = SHAPE.grow if turn.turn else SHAPE.first
            assert low <= turn.new_tokens <= high
            assert SHAPE.out[0] <= turn.output_len <= SHAPE.out[1]
            assert turn.turn < SHAPE.turns
        for turn in slot.turns[1:]:
            assert SHAPE.think[0] <= turn.think <= SHAPE.think[1]
