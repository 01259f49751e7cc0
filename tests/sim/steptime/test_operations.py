"""Seconds of single operations: never negative, never less for more work, along the hardware's lines at the ends."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.steptime.operations import (
    AttentionTerms,
    ExpertTerms,
    GemmTerms,
    LinkTerms,
    allreduce_s,
    decode_attention_s,
    either_or,
    experts_met,
    experts_s,
    gemm_s,
    prefill_attention_s,
)

seconds = st.floats(0.0, 1e-3)
rate = st.floats(1e9, 1e16)
sharpness = st.floats(1.0, 20.0)
count = st.integers(0, 2**17)
gemms = st.builds(GemmTerms, seconds, rate, rate, st.floats(0.0, 1e7), st.floats(0.0, 1e4), sharpness)
attentions = st.builds(AttentionTerms, seconds, rate, st.floats(0.0, 1e4), seconds, seconds, rate, sharpness)
routers = st.builds(ExpertTerms, seconds, rate, rate, st.floats(0.0, 1e3), sharpness)
links = st.builds(LinkTerms, seconds, rate)


class Case(NamedTuple):
    """A formula, what its terms are drawn from, an example of them, and how many sizes it takes."""

    terms: st.SearchStrategy[Any]
    example: Any
    seconds: Callable[..., float]
    sizes: int


GEMM = GemmTerms(4e-6, 250e9, 100e12, 1e5, 150.0, 4.0)
ATTENTION = AttentionTerms(1e-5, 60e12, 300.0, 1e-5, 2.5e-8, 240e9, 1.7)
EXPERTS = ExpertTerms(3e-5, 600e9, 60e12, 32.0, 3.0)
CASES = {
    "gemm": Case(gemms, GEMM, lambda terms, m, n, k: gemm_s(terms, m, n, k, 1.0, 1.0), 3),
    "prefill": Case(attentions, ATTENTION, prefill_attention_s, 5),
    "decode": Case(attentions, ATTENTION, decode_attention_s, 4),
    "experts": Case(routers, EXPERTS, lambda terms, rows, met, h, i: experts_s(terms, rows, met, h, i, 0.53), 4),
    "allreduce": Case(links, LinkTerms(8e-6, 1e10), allreduce_s, 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@given(data=st.data())
def test_more_work_never_costs_less_and_nothing_is_free_or_endless(case: Case, data: st.DataObject) -> None:
    """Non-negative and finite for any terms, and monotone in every size by itself."""
    terms = data.draw(case.terms)
    sizes = data.draw(st.lists(count, min_size=case.sizes, max_size=case.sizes))
    least = case.seconds(terms, *sizes)
    assert math.isfinite(least)
    assert least >= 0
    for place in range(case.sizes):
        more = [*sizes]
        more[place] += data.draw(st.integers(1, 2**16))
        assert case.seconds(terms, *more) >= least * (1 - 1e-12)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_arrays_cost_what_their_numbers_cost(case: Case) -> None:
    """A fit prices whole tables with the code that prices steps."""
    rows = np.random.default_rng(0).integers(1, 10_000, (50, case.sizes)).astype(float)
    together = case.seconds(case.example, *rows.T)
    assert together == pytest.approx([case.seconds(case.example, *row.tolist()) for row in rows])


@given(seconds, seconds, sharpness)
def test_either_or_lies_between_the_larger_and_the_sum(a_s: float, b_s: float, sharp: float) -> None:
    """Work overlaps, but not perfectly; sharpness 1 adds up, a large one takes the larger."""
    together = either_or(a_s, b_s, sharp)
    assert max(a_s, b_s) * (1 - 1e-9) <= together <= (a_s + b_s) * (1 + 1e-9)
    assert either_or(a_s, b_s, 1.0) == pytest.approx(a_s + b_s)
    assert either_or(a_s, b_s, 1e3) == pytest.approx(max(a_s, b_s), rel=1e-3)
    assert together == pytest.approx(either_or(b_s, a_s, sharp))


@given(st.integers(1, 2**16), st.integers(2, 512), st.data())
def test_experts_met_are_at_least_one_tokens_and_at_most_all(tokens: int, experts: int, data: st.DataObject) -> None:
    """And one token meets exactly its own."""
    per_token = data.draw(st.integers(1, experts))
    met = experts_met(tokens, experts, per_token)
    assert per_token * (1 - 1e-9) <= met <= experts
    assert experts_met(1, experts, per_token) == pytest.approx(per_token)
    assert experts_met(tokens + 1, experts, per_token) >= met * (1 - 1e-12)


def test_experts_met_are_those_of_a_fair_router() -> None:
    """A thousand draws of 16 tokens that pick 4 of 32 experts each meet as many on average."""
    rng = np.random.default_rng(0)
    met = [len({e for _ in range(16) for e in rng.choice(32, 4, replace=False).tolist()}) for _ in range(1000)]
    assert experts_met(16, 32, 4) == pytest.approx(np.mean(met), rel=0.01)


def test_a_large_gemm_runs_along_the_flop_line_and_a_small_one_along_the_byte_line() -> None:
    """Within 5 % of 2mnk over the rate at 16,384 cubed, and of the weights over the bandwidth at one token."""
    big = gemm_s(GEMM, 16384, 16384, 16384, 2.0, 2.0)
    assert big == pytest.approx(2 * 16384**3 / GEMM.flops_per_s, rel=0.05)
    one = gemm_s(GEMM, 1, 8192, 8192, 1.0, 1.0)
    assert one == pytest.approx(8192**2 / GEMM.bytes_per_s, rel=0.05)


@given(gemms, count, count, count)
def test_no_gemm_beats_its_own_rates(terms: GemmTerms, m: int, n: int, k: int) -> None:
    """Neither its FLOPs nor its bytes."""
    least = max(2 * m * n * k / terms.flops_per_s, (2 * n * k + 2 * m * k + 2 * m * n) / terms.bytes_per_s)
    assert gemm_s(terms, m, n, k, 2.0, 2.0) >= least * (1 - 1e-9)


def test_attention_far_out_is_all_flops_in_prefill_and_all_bytes_in_decode() -> None:
    """Doubling the pairs, or the KV tokens, doubles the time where they dominate."""
    terms = ATTENTION
    prefill = prefill_attention_s(terms, 1e10, 1024, 32, 8, 128)
    assert prefill == pytest.approx(4 * 128 * 32 * 1e10 / terms.prefill_flops_per_s, rel=0.01)
    decode = decode_attention_s(terms, 1, 1e7, 8, 512)
    assert decode == pytest.approx(1e7 * 8 * 512 / terms.decode_bytes_per_s, rel=0.01)
    many_short = decode_attention_s(terms, 4096, 4096, 8, 512)
    assert many_short > 4096 * 8 * terms.decode_row_s


def test_many_tokens_through_experts_cost_flops_and_one_token_costs_the_weights_it_meets() -> None:
    """Eight experts of 3 x 2048 x 768 weights for one token; all 128 of them for 2 million rows."""
    terms = EXPERTS._replace(overhead_s=0.0)
    weights = 3 * 2048 * 768
    assert experts_s(terms, 8, 8, 2048, 768, 2.0) == pytest.approx(weights * 2 * 8 / terms.bytes_per_s, rel=0.1)
    rows = 2_000_000
    assert experts_s(terms, rows, 128, 2048, 768, 2.0) == pytest.approx(2 * weights * rows / 60e12, rel=0.05)
