"""Unbroken areas in one memory: they tile it, grow in place where they can, and move where they must."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kv.contiguous_memory import ContiguousMemory

moves = st.lists(st.tuples(st.sampled_from(["take", "grow", "give back"]), st.integers(1, 40), st.integers(0, 50)))


@given(st.integers(0, 120), moves)
@settings(deadline=None)
def test_areas_and_holes_tile_the_memory(total: int, asked: list[tuple[str, int, int]]) -> None:
    """Whatever is taken, lengthened and given back; None only where no hole is long enough."""
    memory = ContiguousMemory(total)
    areas: dict[int, int] = {}
    for what, tokens, which in asked:
        if what == "take":
            hole = memory.largest_hole_tokens
            start = memory.take(tokens)
            assert (start is None) == (hole < tokens)
            if start is not None:
                areas[start] = tokens
        elif areas:
            start = sorted(areas)[which % len(areas)]
            if what == "give back":
                memory.give_back(start)
                del areas[start]
            else:
                longer, hole = areas[start] + tokens, memory.largest_hole_tokens
                moved = memory.grow(start, longer)
                if moved is None:
                    assert hole < longer  # no room for a copy
                else:
                    del areas[start]
                    areas[moved] = longer
        memory.check_integrity()
        assert memory._areas == areas
        assert memory.free_tokens == total - sum(areas.values())


def test_an_area_stays_where_it_is_if_there_is_room_behind_it() -> None:
    """Else its content is copied, and the old place is free after that."""
    memory = ContiguousMemory(100)
    first, second = memory.take(20), memory.take(20)
    assert (first, second) == (0, 20)
    assert memory.grow(20, 30) == 20
    assert memory.grow(0, 40) == 50
    assert memory.largest_hole_tokens == 20
    assert memory.grow(50, 50) == 50
    assert memory.grow(20, 40) is None  # 20 are free before it, none behind it
    memory.check_integrity()
