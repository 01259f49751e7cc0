from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import shown_ledgers as ledgers
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from shown_ledgers import ledger, uniform

from sim.errors import MemoryLedgerError
from sim.report.ledger_chart import bars_chart, draw_bars
from sim.report.ledger_leaders import side_by_side
from sim.report.ledger_stack import stack_of
from sim.units import GIB, gib


def words(figure: Figure) -> str:
    """Return everything written in a figure."""
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def widths(figure: Figure) -> list[float]:
    """Return the widths of all rectangles, in the axis' units."""
    return [patch.get_width() for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def test_segments_are_as_long_as_the_parts_in_gib() -> None:
    """And the frame as long as the GPU."""
    it = uniform()
    found = widths(bars_chart({"a": it}))
    for size in (it.rank.weight_bytes, it.kv_bytes, it.rank.total_visible_bytes):
        assert any(width == pytest.approx(size / GIB) for width in found)


def test_blocks_and_concurrency_stand_at_the_end() -> None:
    """A refusal says what is missing."""
    assert {"5,000 blocks", "8.00x of 10,000 tokens"} <= set(words(bars_chart({"a": uniform()})).splitlines())
    text = words(bars_chart({"small": ledgers.refused()}))
    assert {"refused", f"{gib(-ledgers.refused().kv_bytes)} short", "does not fit"} <= set(text.splitlines())
    text = words(bars_chart({"a": uniform(data_parallel_size=4)}))
    assert {"4 x 5,000 blocks", "32.00x of 10,000 tokens", "on 4 replicas"} <= set(text.splitlines())
    almost = ledger("L4", "Qwen3-8B", max_model_len=ledger("L4", "Qwen3-8B").largest_max_model_len + 100)
    text = words(bars_chart({"a": almost}))
    assert {"probably refused", f"{almost.largest_max_model_len:,} would start"} <= set(text.splitlines())


def test_each_stage_and_each_ledger_has_a_bar() -> None:
    """Named, in order."""
    figure = bars_chart({"pair": ledgers.stages(), "pools": ledgers.pools()})
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["pair\nstage 0: layers 0 to 23", "stage 1: layers 24 to 39", "pools"]


def test_only_what_is_uncertain_has_a_whisker() -> None:
    """It spans the range of KV's beginning; given KV has none."""
    estimated = ledger("L4", "Qwen3-4B")
    (whisker, *_) = [
        line.get_segments()[0]
        for bar in bars_chart({"a": estimated}).axes[0].containers
        for line in getattr(bar, "lines", [()])[-1]
        if hasattr(line, "get_segments") and len(line.get_segments())
    ]
    span = estimated.num_gpu_blocks_range, estimated.rank.kv_bytes
    assert whisker[1][0] - whisker[0][0] == pytest.approx((span[1].high - span[1].low) / GIB)
    assert "KV may begin between" not in words(bars_chart({"a": uniform()}))


def test_one_ledger_names_itself() -> None:
    """Unless told otherwise."""
    assert "Qwen3-4B on one L4, vLLM 0.32.0" in words(bars_chart({"a": uniform()}))
    assert "mine" in words(bars_chart({"a": uniform()}, title="mine"))


@pytest.mark.parametrize("ending", [".png", ".svg", ".PNG"])
def test_the_same_ledgers_give_the_same_bytes(ending: str, tmp_path: Path, left: Callable[[], object]) -> None:
    """In the kind the ending says, and nothing else is written."""
    paths = [tmp_path / f"{name}{ending}" for name in "ab"]
    for path in paths:
        draw_bars({"one": uniform(), "two": ledgers.refused()}, path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert (b"<svg" in first) is (ending == ".svg")
    assert b"date" not in first
    assert left() == sorted(path.name for path in paths)


def test_another_ending_is_an_error(tmp_path: Path, left: Callable[[], object]) -> None:
    """Before anything is drawn."""
    with pytest.raises(MemoryLedgerError, match=r"'\.pdf' is not one of \.png, \.svg"):
        draw_bars({"a": uniform()}, tmp_path / "bars.pdf")
    assert left() == []


def test_thin_parts_have_their_labels_above() -> None:
    """0.14 of 22 GiB have no room for a word."""
    assert {"outside torch 0.14", "CUDA graphs 0.50"} <= set(
        words(bars_chart({"a": ledger("L4", "Qwen3-4B")})).splitlines()
    )


def test_a_whisker_ends_with_the_gpu() -> None:
    """Where KV may begin beyond it, it does not fit, which the hatching shows."""
    it = ledger("L4", "Qwen3-8B", gpu_memory_utilization=0.85, max_num_batched_tokens=65_536)
    stack = stack_of(it)
    assert stack.kv_starts_between is not None
    assert stack.kv_start_range.high > stack.visible_bytes == stack.kv_starts_between[1]
    assert stack_of(ledgers.refused()).kv_starts_between is None


@given(
    labels=st.lists(st.tuples(st.floats(0, 100), st.floats(1, 10)), max_size=8).map(sorted),
)
def test_labels_side_by_side_never_overlap(labels: list[tuple[float, float]]) -> None:
    """They keep their order, and stay inside while there is room."""
    widths = [width for _, width in labels]
    placed = side_by_side([centre for centre, _ in labels], widths, 0, 100)
    edges = [(at - width / 2, at + width / 2) for at, width in zip(placed, widths, strict=True)]
    assert all(one[1] <= two[0] + 1e-9 for one, two in pairwise(edges))
    assert all(low >= -1e-9 and high <= 100 + 1e-9 for low, high in edges)
