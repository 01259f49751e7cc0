"""Measurement tables of a GPU whose terms are known: what the formulas say, with noise on top."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from device_profiles import ATTENTION, EXPERTS, GEMM

from calibrate.table_io import checked_table
from sim.steptime.operations import (
    AttentionTerms,
    ExpertTerms,
    GemmTerms,
    LinkTerms,
    allreduce_s,
    decode_attention_s,
    experts_met,
    experts_s,
    gemm_s,
    prefill_attention_s,
)

GPU = "L4"
LINK = {"latency_s": 8e-6, "bytes_per_s": 16e9}
TRUTH = {  # of the terms below, by the name they have in a profile
    **{f"linear.bf16.{name}": value for name, value in GEMM.items()},
    **{f"attention.bf16.{name}": value for name, value in ATTENTION.items()},
    **{f"experts.bf16.{name}": value for name, value in EXPERTS.items()},
    **{f"links.2.{name}": value for name, value in LINK.items()},
}
HEADS = ((32, 8, 128), (16, 8, 128), (40, 8, 128))

Row = dict[str, Any]


def gemms() -> Iterator[Row]:
    """Yield products from a token to a long prefill, of four shapes."""
    for tokens, (n, k) in product((1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192), SHAPES):
        seconds = gemm_s(GemmTerms(**GEMM), tokens, n, k, 2.0, 2.0)
        yield _row("gemm", seconds, weight_dtype="bf16", tokens=tokens, out_features=n, in_features=k)


SHAPES = ((6144, 4096), (24576, 4096), (4096, 12288), (16384, 1024), (8192, 2048), (2048, 16384), (65536, 4096))


def prefills() -> Iterator[Row]:
    """Yield one layer's prefill attention, with and without context."""
    for requests, new, past, (heads, kv_heads, dim) in product(
        (1, 4), (64, 128, 256, 1024, 4096), (0, 1024, 8192), HEADS
    ):
        pairs = requests * new * (past + (new + 1) / 2)
        seconds = prefill_attention_s(AttentionTerms(**ATTENTION), pairs, requests * new, heads, kv_heads, dim)
        yield _attention("prefill_attention", seconds, requests, past, heads, kv_heads, dim) | {"new_tokens": new}


def decodes() -> Iterator[Row]:
    """Yield one layer's decode attention, from short contexts to far beyond the L2."""
    for rows, past, (heads, kv_heads, dim) in product((1, 2, 8, 32, 128), (1, 15, 63, 255, 4095, 16383, 65535), HEADS):
        tokens = rows * (past + 1)
        seconds = decode_attention_s(AttentionTerms(**ATTENTION), rows, tokens, kv_heads, 4 * dim)
        yield _attention("decode_attention", seconds, rows, past, heads, kv_heads, dim)


def experts() -> Iterator[Row]:
    """Yield one layer's experts of two models."""
    for tokens, (count, each, hidden, inner) in product(
        (1, 4, 16, 64, 256, 1024, 4096, 16384), ((128, 8, 2048, 768), (8, 2, 4096, 14336))
    ):
        met = experts_met(tokens, count, each)
        seconds = experts_s(ExpertTerms(**EXPERTS), tokens * each, met, hidden, inner, 2.0)
        yield _row(
            "moe", seconds, weight_dtype="bf16", tokens=tokens, experts=count, experts_per_token=each,
            in_features=hidden, out_features=inner,
        )  # fmt: skip


def reduces() -> Iterator[Row]:
    """Yield all-reduces over two GPUs."""
    for power in range(10, 28):
        seconds = allreduce_s(LinkTerms(**LINK), 2.0**power)
        yield _row("allreduce", seconds, tensor_parallel=2, bytes=2.0**power, graph="cuda_graph")


def table_of(*rows: Row) -> pd.DataFrame:
    """Return rows as a checked table."""
    return checked_table(pd.DataFrame(rows)).frame


def noisy(table: pd.DataFrame, spread: float, seed: int = 0, *, outliers: int = 0) -> pd.DataFrame:
    """Return the table with relative noise, and some rows that took three times as long."""
    rng = np.random.default_rng(seed)
    factors = np.exp(spread * rng.standard_normal(len(table)))
    factors[rng.choice(len(table), outliers, replace=False)] *= 3
    return table.assign(time_s=table["time_s"] * factors)


def _row(operation: str, seconds: float, **sizes: Any) -> Row:
    return {
        "operation": operation, "label": "measured", "gpu": GPU, "time_s": float(seconds), "source": "made up",
        **sizes,
    }  # fmt: skip


def _attention(  # noqa: PLR0917 - a shape
    operation: str, seconds: float, sequences: int, past: int, heads: int, kv_heads: int, dim: int
) -> Row:
    return _row(
        operation, seconds, kv_cache_dtype="bf16", sequences=sequences, past_tokens=past, num_heads=heads,
        num_kv_heads=kv_heads, head_dim=dim,
    )  # fmt: skip
