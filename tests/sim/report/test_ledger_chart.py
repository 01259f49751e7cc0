from collections.abc import Callable
from pathlib import Path

import pytest
import shown_ledgers as ledgers
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from shown_ledgers import ledger, uniform

from sim.errors import MemoryLedgerError
from sim.report.ledger_chart import bars_chart, draw_bars
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
    assert "where KV may begin" not in words(bars_chart({"a": uniform()}))


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
