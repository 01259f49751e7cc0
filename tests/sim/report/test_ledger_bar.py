from collections.abc import Callable

import pytest
import shown_ledgers as ledgers
from hypothesis import given
from hypothesis import strategies as st
from shown_ledgers import ledger, shown

from sim.memory import MemoryLedger, SglangPools
from sim.report.ledger_bar import terminal_bar
from sim.report.ledger_stack import stack_of
from sim.units import gib

Ledger = MemoryLedger | SglangPools


@given(
    share=st.floats(0.05, 1.0),
    width=st.integers(20, 100),
    model=st.sampled_from(["Qwen3-4B", "Qwen3-8B", "gpt-oss-120b"]),
)
def test_the_bar_is_as_wide_as_asked(share: float, width: int, model: str) -> None:
    """Whatever fits or does not."""
    text = shown(terminal_bar(ledger("L4", model, gpu_memory_utilization=share), width), width=120)
    assert len(text.splitlines()[0]) == width


def test_cells_are_in_proportion_and_every_part_is_seen() -> None:
    """7.49 of 22.03 GiB are 34 of 100 cells; 0.14 GiB still have one."""
    bar = shown(terminal_bar(ledger("L4", "Qwen3-4B", max_model_len=32_768), 100), width=100).splitlines()[0]
    assert bar.count("█") == 34
    assert bar.count("▒") == 1
    assert "".join(dict.fromkeys(bar)) == "█▓▒=░·"


def test_the_budget_is_marked_where_it_ends() -> None:
    """Below the last cell of KV."""
    bar, mark, *_ = shown(terminal_bar(ledger("L4", "Qwen3-4B"), 80)).splitlines()
    assert mark.endswith("budget 20.27 GiB of 22.03 GiB ^")
    assert abs(mark.index("^") - bar.rindex("=")) <= 1


def test_the_budget_is_marked_where_kv_is_given_too() -> None:
    """It is still what the engine was told to take."""
    assert "budget 20.27 GiB of 22.03 GiB ^" in shown(terminal_bar(ledgers.uniform(), 80))


def test_what_is_short_is_marked() -> None:
    """From the end of the budget, and with its size."""
    bar, mark, *legend = shown(terminal_bar(ledgers.refused(), 80)).splitlines()
    assert bar.index("!") == mark.index("^") + 1
    assert f"! {gib(-ledgers.refused().kv_bytes)} short" in "\n".join(legend)
    assert "KV cache" not in "\n".join(legend)


def test_graphs_that_pass_the_end_of_the_gpu_are_short_as_well() -> None:
    """At 0.99 they have no room; the scale then ends where they do."""
    it = stack_of(ledger("L4", "Qwen3-4B", gpu_memory_utilization=0.99))
    assert it.short == (it.visible_bytes, it.end_bytes)
    assert stack_of(ledger("L4", "Qwen3-4B")).short is None


@pytest.mark.parametrize("make", [ledgers.uniform, ledgers.refused, ledgers.stages, ledgers.pools])
def test_a_terminal_without_block_elements_gets_ascii(make: Callable[[], Ledger]) -> None:
    """Nothing else would print there."""
    assert shown(terminal_bar(make(), 80), encoding="ascii").isascii()
