"""Nothing is faster than light, and what the L2 cache serves is not refused for being faster than memory."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.light_check import bound_s, check_light_speed, visible_pairs
from calibrate.measurements import NAMES, TEXT
from sim.catalog import load_gpu, load_model

L40S = load_gpu("L40S")


def _frame(*rows: dict[str, object]) -> pd.DataFrame:
    empty = {name: "" if name in TEXT else np.nan for name in NAMES}
    return pd.DataFrame([empty | {"gpu": "L40S"} | row for row in rows])


def _decode(kv_cache_dtype: str, effective_bytes_per_s: float) -> dict[str, object]:
    """Return batch 8 on 4,095 tokens, 8 KV heads, at an effective bandwidth."""
    moved = 8 * 4095 * 8 * 128 * 2 * (1 if kv_cache_dtype == "fp8" else 2)
    shape = {"sequences": 8, "past_tokens": 4095, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128}
    time_s = moved / effective_bytes_per_s
    return {"operation": "decode_attention", **shape, "kv_cache_dtype": kv_cache_dtype, "time_s": time_s}


def test_kv_that_fits_the_l2_may_be_read_faster_than_memory() -> None:
    """The published L40S row: 67 MB of fp8 KV at 1.9 TB/s on a card with 0.86 TB/s and 96 MB of L2."""
    check = check_light_speed(_frame(_decode("fp8", 1.9e12)))
    assert not check.too_fast.any()


def test_kv_beyond_the_l2_may_not() -> None:
    """134 MB of bf16 KV: at 0.6 TB/s it passes, at 10 TB/s what exceeds the cache is too fast."""
    check = check_light_speed(_frame(_decode("bf16", 0.6e12), _decode("bf16", 10e12)))
    assert check.too_fast.tolist() == [False, True]


def test_milliseconds_read_as_seconds_are_too_slow() -> None:
    """A product that takes 0.2 ms, given as 0.2 s; one that takes 20 times its bound is kept."""
    sizes = {"operation": "gemm", "weight_dtype": "bf16", "tokens": 1024, "out_features": 4096, "in_features": 4096}
    check = check_light_speed(_frame(sizes | {"time_s": 0.2}, sizes | {"time_s": 4e-3}))
    assert check.too_slow.tolist() == [True, False]
    assert check.slow.tolist() == [True, True]


def test_a_gemm_above_the_peak_is_too_fast() -> None:
    """Twice the bf16 peak is refused in bf16, and allowed in fp8 whose peak is twice as high."""
    shape = {"operation": "gemm", "tokens": 8192, "out_features": 8192, "in_features": 8192}
    time_s = 2 * 8192**3 / (1.9 * L40S.bf16_flops)
    rows = [shape | {"weight_dtype": dtype, "time_s": time_s} for dtype in ("bf16", "fp8", "fp8_block", "int4")]
    assert check_light_speed(_frame(*rows)).too_fast.tolist() == [True, False, False, True]


def test_weights_beyond_the_l2_bound_a_gemm_of_one_token() -> None:
    """A 65,536 x 8,192 bf16 matrix is 1.07 GB, 101 MB of which may sit in the cache."""
    shape = {"operation": "gemm", "tokens": 1, "out_features": 65536, "in_features": 8192, "weight_dtype": "bf16"}
    (least,) = bound_s(_frame(shape))
    moved = 2 * (65536 * 8192 + 65536 + 8192)
    assert least == pytest.approx((moved - 96 * 2**20) / 864e9)


def test_a_step_pays_for_its_weights_and_its_flops() -> None:
    """Qwen3-8B bf16 on one H100: a decode step waits for 15 GB of weights, a prefill of 2,048 for its FLOPs."""
    model, card = load_model("Qwen3-8B"), load_gpu("H100")
    same = {"operation": "step", "gpu": "H100-80GB-SXM", "model": "Qwen3-8B", "weight_dtype": "bf16"}
    decode, prefill = bound_s(
        _frame(
            same | {"tokens": 8, "decode_rows": 8, "decode_past_tokens": 1000},
            same | {"tokens": 2048, "sequences": 1, "new_tokens": 2048, "past_tokens": 0},
        )
    )
    kept = 8 * 1000 * model.kv_bytes_per_token("bf16")
    assert decode == pytest.approx((2 * model.linear_params + kept - card.l2_bytes) / card.bandwidth_bytes_per_s)
    pairs = 2048 * 2049 / 2
    flops = 2048 * model.linear_flops_per_token + pairs * model.attention_flops_per_pair
    assert prefill == pytest.approx(flops / card.bf16_flops)


def test_a_step_on_two_gpus_is_half_of_one() -> None:
    """Tensor parallelism shares FLOPs alike."""
    same = {"operation": "step", "gpu": "H100", "model": "Qwen3-8B", "tokens": 4096, "new_tokens": 4096}
    one, two = bound_s(_frame(same | {"sequences": 1}, same | {"sequences": 1, "tensor_parallel": 2}))
    assert two == pytest.approx(one / 2)


def test_a_shared_prefix_is_read_once() -> None:
    """64 rows on the same 32,768 tokens and 1,000 of their own move far less than 64 whole contexts."""
    shape = {"operation": "decode_attention", "sequences": 64, "past_tokens": 33768, "num_heads": 8} | {
        "num_kv_heads": 8,
        "head_dim": 128,
        "kv_cache_dtype": "bf16",
    }
    apart, together = bound_s(_frame(shape, shape | {"shared_tokens": 32768}))
    assert together < apart / 20


@pytest.mark.parametrize(
    "row",
    [
        {"operation": "launch"},
        {"operation": "sampling", "sequences": 4},
        {"operation": "gemm", "gpu": "X100", "tokens": 1, "out_features": 8, "in_features": 8},
        {"operation": "step", "model": "nobody's", "tokens": 8},
        {"operation": "step", "tokens": 8},
        {"operation": "allreduce", "gpu": "cpu: some, 2 threads", "bytes": 8, "tensor_parallel": 2},
    ],
)
def test_what_is_not_known_has_no_bound(row: dict[str, object]) -> None:
    """An unknown card, model or size is never a reason to refuse a row."""
    frame = _frame(row | {"time_s": 1e-8})
    assert np.isnan(bound_s(frame)).all()
    assert not check_light_speed(frame).too_fast.any()


def test_slow_rows_are_counted_where_the_bound_means_something() -> None:
    """A bound of a few ns is launch overhead; a 3 ms one passed over sixfold is worth a warning."""
    shape = {"operation": "gemm", "out_features": 8192, "in_features": 8192, "weight_dtype": "bf16", "time_s": 20e-3}
    small = shape | {"tokens": 1, "out_features": 1024}
    assert check_light_speed(_frame(shape | {"tokens": 8192}, small)).slow.tolist() == [True, False]


@given(new=st.integers(0, 40), past=st.integers(0, 40), window=st.one_of(st.just(float("inf")), st.integers(1, 50)))
def test_visible_pairs_count_what_each_query_sees(new: int, past: int, window: float) -> None:
    """The closed form is the sum over queries."""
    expected = sum(min(past + query, window) for query in range(1, new + 1))
    got = visible_pairs(np.array([float(new)]), np.array([float(past)]), np.array([float(window)]))
    assert got[0] == expected


@given(tokens=st.integers(1, 10**6), more=st.integers(1, 1000))
def test_a_larger_gemm_is_never_bounded_lower(tokens: int, more: int) -> None:
    """The bound grows with the work."""
    shape = {"operation": "gemm", "out_features": 4096, "in_features": 4096, "weight_dtype": "fp8"}
    small, large = bound_s(_frame(shape | {"tokens": tokens}, shape | {"tokens": tokens + more}))
    assert small <= large
