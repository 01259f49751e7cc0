"""The sums that price a batch, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engine.batch_shape import batch_shape
from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.scheduling.request import Request
from sim.steptime.batch import BatchShape
from workloads.span import Span


def scheduler_with(prompts: list[tuple[Span, ...]], *, budget: int = 8192, output: int = 5) -> ContinuousScheduler:
    """Return a scheduler with these prompts waiting."""
    tree = ContentTree(16)
    scheduler = ContinuousScheduler(SchedulerConfig(max_num_batched_tokens=budget), BlockPool(1000))
    for number, spans in enumerate(prompts):
        length = sum(span.length for span in spans)
        content = tree.content([*spans, Span(f"answer {number}", 0, output)])
        scheduler.add(Request(str(number), number, length, output, content))
    return scheduler


def step(scheduler: ContinuousScheduler) -> BatchShape:
    """Schedule, process and return the batch in numbers."""
    batch = scheduler.schedule()
    shape = batch_shape(batch, scheduler, count_shared=True)
    scheduler.process(batch)
    assert shape[8:] == (0, 0, 0)
    return shape


def test_chunks_and_decode_rows_are_summed_as_on_paper() -> None:
    """Prompts of 40 and 100 tokens, 64 tokens a step.

    A chunk of q tokens on `past` has q x (past + (q + 1) / 2) pairs; a decode row attends to itself too.
    """
    scheduler = scheduler_with([(Span("a", 0, 40),), (Span("b", 0, 100),)], budget=64)
    assert step(scheduler)[:8] == (64, 1, 40 * 20.5 + 24 * 12.5, 0, 0, 0.0, True, 40 + 24)
    assert step(scheduler)[:8] == (64, 1, 63 * (24 + 32.0), 1, 41, 0.0, True, 24 + 63)
    assert step(scheduler)[:8] == (14, 2, 13 * (87 + 7.0), 1, 42, 0.0, True, 100)
    assert step(scheduler)[:8] == (2, 2, 0.0, 2, 43 + 101, 0.0, False, 0)
    assert step(scheduler)[:8] == (2, 2, 0.0, 2, 44 + 102, 0.0, False, 0)
    assert step(scheduler)[:8] == (1, 1, 0.0, 1, 103, 0.0, False, 0)  # the first one had its five tokens


@pytest.mark.parametrize("requests", [2, 3, 7])
@pytest.mark.parametrize("prefix_blocks", [1, 4])
def test_shared_tokens_are_exact_for_a_common_prefix(requests: int, prefix_blocks: int) -> None:
    """All rows but one read the prefix a second time; what is their own is not shared."""
    prefix = Span("system prompt", 0, 16 * prefix_blocks)
    scheduler = scheduler_with([(prefix, Span(f"own {number}", 0, 21)) for number in range(requests)])
    step(scheduler)
    shape = step(scheduler)
    assert shape.decode_rows == requests
    assert shape.decode_kv_tokens_shared == 16 * prefix_blocks * (requests - 1)


def test_nothing_is_shared_by_one_row_or_by_strangers() -> None:
    """One decode row reads everything once, and private prompts have no common block."""
    alone = scheduler_with([(Span("system prompt", 0, 64), Span("own", 0, 20))])
    strangers = scheduler_with([(Span(f"own {number}", 0, 50),) for number in range(3)])
    for scheduler in (alone, strangers):
        step(scheduler)
        assert step(scheduler).decode_kv_tokens_shared == 0.0


def test_shared_tokens_are_counted_only_on_request() -> None:
    """Most profiles do not use them."""
    scheduler = scheduler_with([(Span("system prompt", 0, 64), Span(f"own {number}", 0, 20)) for number in range(3)])
    step(scheduler)
    assert batch_shape(scheduler.schedule(), scheduler, count_shared=False).decode_kv_tokens_shared == 0.0


@given(st.lists(st.integers(2, 300), min_size=1, max_size=6), st.sampled_from([7, 64, 300]))
def test_a_prompt_has_the_same_pairs_however_it_is_cut(prompts: list[int], budget: int) -> None:
    """Chunks of a prompt of n tokens add up to n (n + 1) / 2 pairs, rows of one token counted as decode rows."""
    scheduler = scheduler_with(
        [(Span(f"own {i}", 0, length),) for i, length in enumerate(prompts)], budget=budget, output=1
    )
    shapes = []
    while scheduler.has_requests:
        shapes.append(step(scheduler))
    pairs = sum(shape.prefill_pairs + shape.decode_kv_tokens for shape in shapes)
    assert pairs == sum(length * (length + 1) / 2 for length in prompts)
    assert sum(shape.tokens for shape in shapes) == sum(prompts)
    assert sum(shape.sampled for shape in shapes) == len(prompts)
    assert np.all([shape.tokens <= budget for shape in shapes])
