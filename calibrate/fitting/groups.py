"""Which rows of the measurement table determine which terms, and what the terms predict for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from calibrate.fitting.robust import Vector
from calibrate.light_check import L2_WHERE_UNKNOWN_BYTES
from sim.catalog import Gpu, activation_bytes, linear_weight_bytes
from sim.catalog.dtypes import KV_DTYPES, LINEAR_WEIGHT_BYTES
from sim.steptime.compose import BITS16_BYTES, PASSES
from sim.steptime.device import weight_family
from sim.steptime.operations import (
    AttentionTerms,
    ExpertTerms,
    GemmTerms,
    LinkTerms,
    SmallTerms,
    allreduce_s,
    decode_attention_s,
    experts_met,
    experts_s,
    gemm_s,
    prefill_attention_s,
    small_s,
)
from sim.steptime.profile import kv_family

RATES_ALONE = "rates alone"  # what is fitted of a group with few rows
SPARE_ROWS = 2  # more than there are terms
ROTATES = "kvcliff calibrate"  # the source whose inputs never stay in a cache between repeats
LINEAR_BYTES_MIN = 16 << 20  # smaller weights stay in any L2 while a loop times them
SMALL_KV_BYTES = 2e6  # below this a decode row's time is its overhead, wherever its bytes lie
FOUR_BITS = 4.2  # with scales
KV_BITS = {"bf16": 16.0, "fp8": 8.0, "int8": 8.0, "fp32": 32.0}

EXPERT_SIZES = ["experts", "experts_per_token", "in_features", "out_features"]
PREFILL, DECODE = AttentionTerms._fields[:3], AttentionTerms._fields[3:]

Columns = dict[str, Vector]
Predict = Callable[[dict[str, float], Columns], Vector]


@dataclass(frozen=True, slots=True)
class Group:
    """Terms that the same rows determine."""

    name: str  # what reports call it
    prefix: str  # of the terms' names in the profile
    fields: tuple[str, ...]
    predict: Predict
    rows: pd.DataFrame
    context: str  # the column whose values are left out one by one: context length, batch or message size

    @property
    def is_ample(self) -> bool:
        """Whether there are rows enough for every term."""
        return len(self.rows) >= len(self.fields) + SPARE_ROWS

    @property
    def rates(self) -> tuple[str, ...]:
        """The terms that are per second: what a row or two can still move."""
        return tuple(field for field in self.fields if field.endswith("_per_s"))

    def columns(self) -> Columns:
        """Return the rows' numbers as arrays."""
        numbers = self.rows.select_dtypes("number")
        return {str(name): numbers[name].to_numpy(float) for name in numbers}


def pick(columns: Columns, rows: NDArray[np.intp]) -> Columns:
    """Return some rows of the columns."""
    return {name: values[rows] for name, values in columns.items()}


def groups(gpu: Gpu, table: pd.DataFrame) -> Iterator[Group]:
    """Yield the groups that a table of one GPU has enough rows for; few rows move the rates alone."""
    for group in _candidates(gpu, table):
        if group.is_ample:
            yield group
        elif group.rates and len(group.rows) >= len(group.rates):
            yield replace(group, name=f"{group.name}, {RATES_ALONE}", fields=group.rates)


def unfitted(gpu: Gpu, table: pd.DataFrame) -> Iterator[str]:
    """Yield what has too few rows even for its rates, with their number and how many would do."""
    for group in _candidates(gpu, table):
        needed = len(group.rates) or len(group.fields) + SPARE_ROWS
        if 0 < len(group.rows) < needed:
            yield f"{group.name} ({len(group.rows)} of {needed} rows needed)"


def _candidates(gpu: Gpu, table: pd.DataFrame) -> Iterator[Group]:
    by_operation = {str(name): rows for name, rows in table.groupby("operation", sort=False)}
    for dtype, rows in _by_weight(_products(table)):
        weights = rows["out_features"] * rows["in_features"] * linear_weight_bytes(dtype)
        big = (weights >= LINEAR_BYTES_MIN) | (rows["source"] == ROTATES)
        yield Group(f"linear {dtype}", f"linear.{dtype}", GemmTerms._fields, _gemm(dtype), rows[big], "tokens")
    for family, rows in by_kv_family(by_operation.get("prefill_attention")):
        yield Group(f"prefill attention {family}", f"attention.{family}", PREFILL, _prefill, rows, "new_tokens")
    for family, rows in by_kv_family(by_operation.get("decode_attention")):
        clear = rows[_beyond_cache(rows, family, gpu) & (rows["shared_tokens"].fillna(0) == 0)]
        yield Group(f"decode attention {family}", f"attention.{family}", DECODE, _decode(family), clear, "past_tokens")
    for dtype, rows in _by_weight(by_operation.get("moe")):
        whole = rows.dropna(subset=EXPERT_SIZES)
        yield Group(f"experts {dtype}", f"experts.{dtype}", ExpertTerms._fields, _experts(dtype), whole, "tokens")
    reduces = by_operation.get("allreduce", table.iloc[:0])
    for size, rows in reduces[reduces["graph"] != "eager"].groupby("tensor_parallel"):
        gpus = int(size)
        yield Group(f"all-reduce over {gpus}", f"links.{gpus}", LinkTerms._fields, _allreduce, rows, "bytes")
    for part, rows in small_parts(table):
        yield Group(part, f"small.{part}", SmallTerms._fields, _small(part), rows, "tokens")
    if (rows := by_operation.get("sampling")) is not None:
        greedy = rows[rows["part"] == "greedy"]  # where both are timed: drawing costs several unfused kernels
        own = greedy if len(greedy) else rows
        yield Group("sampling", "composition", ("step_s", "sequence_s"), _sampling, own, "sequences")


def small_parts(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each small kernel the table has enough of, in the model's own number type."""
    sized = table[(table["operation"] == "elementwise") & table["out_features"].notna()]
    rows = sized[sized["kv_cache_dtype"].isin(["", "bf16", "fp16", "fp32"])]
    for part, own in rows.groupby("part"):
        if part in PASSES:
            yield str(part), own


def _products(table: pd.DataFrame) -> pd.DataFrame:
    """Return the matrix products, output heads among them."""
    heads = table[table["operation"] == "head"].dropna(subset=["in_features", "out_features"])
    return pd.concat([table[table["operation"] == "gemm"], heads.assign(tokens=heads["sequences"])])


def _by_weight(rows: pd.DataFrame | None) -> Iterator[tuple[str, pd.DataFrame]]:
    if rows is not None:
        for dtype, own in rows.groupby(rows["weight_dtype"].replace("", "bf16").map(weight_family)):
            if dtype in LINEAR_WEIGHT_BYTES:  # block-scaled and 4-bit float types have no terms yet
                yield str(dtype), own


def by_kv_family(rows: pd.DataFrame | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of full attention by the family of their KV dtype."""
    if rows is not None:
        full = rows[rows["window"].fillna(0) == 0]
        dtypes = full["kv_cache_dtype"].replace({"": "auto", "int4": "tq4"})  # four bits, whoever packs them
        known = dtypes.isin(KV_DTYPES)
        for family, own in full[known].groupby(dtypes[known].map(kv_family).to_numpy()):
            yield str(family), own


def _beyond_cache(rows: pd.DataFrame, family: str, gpu: Gpu) -> "pd.Series[bool]":
    """Keep rows whose KV is far larger than the L2, or so small that only overhead counts: a loop times the cache."""
    tokens = rows["sequences"] * rows["past_tokens"]
    read = tokens * rows["num_kv_heads"] * 2 * rows["head_dim"] * KV_BITS.get(family, FOUR_BITS) / 8
    return (rows["source"] == ROTATES) | (read > 2 * (gpu.l2_bytes or L2_WHERE_UNKNOWN_BYTES)) | (read < SMALL_KV_BYTES)


def _gemm(dtype: str) -> Predict:
    weight_bytes = linear_weight_bytes(dtype)
    element_bytes = activation_bytes(dtype)

    def predict(values: dict[str, float], rows: Columns) -> Vector:
        m, n, k = rows["tokens"], rows["out_features"], rows["in_features"]
        return np.asarray(gemm_s(GemmTerms(**values), m, n, k, weight_bytes, element_bytes))

    return predict


def _prefill(values: dict[str, float], rows: Columns) -> Vector:
    requests, new = rows["sequences"], rows["new_tokens"]
    pairs = requests * new * (np.nan_to_num(rows["past_tokens"]) + (new + 1) / 2)
    heads, kv_heads, dim = rows["num_heads"], rows["num_kv_heads"], rows["head_dim"]
    return np.asarray(prefill_attention_s(AttentionTerms(**values), pairs, requests * new, heads, kv_heads, dim))


def _decode(family: str) -> Predict:
    head_bits = 2 * KV_BITS.get(family, FOUR_BITS)

    def predict(values: dict[str, float], rows: Columns) -> Vector:
        count = rows["sequences"]
        tokens, head_bytes = count * (rows["past_tokens"] + 1), rows["head_dim"] * head_bits / 8
        return np.asarray(decode_attention_s(AttentionTerms(**values), count, tokens, rows["num_kv_heads"], head_bytes))

    return predict


def _experts(dtype: str) -> Predict:
    weight_bytes = linear_weight_bytes(dtype)

    def predict(values: dict[str, float], rows: Columns) -> Vector:
        tokens, each = rows["tokens"], rows["experts_per_token"]
        given = rows["experts_active"]
        met = np.where(np.isnan(given), experts_met(tokens, rows["experts"], each), given)
        hidden, inner = rows["in_features"], rows["out_features"]
        return np.asarray(experts_s(ExpertTerms(**values), tokens * each, met, hidden, inner, weight_bytes))

    return predict


def _small(part: str) -> Predict:
    def predict(values: dict[str, float], rows: Columns) -> Vector:
        moved = PASSES[part] * rows["tokens"] * rows["out_features"] * BITS16_BYTES
        return np.asarray(small_s(SmallTerms(**values), moved))

    return predict


def _sampling(values: dict[str, float], rows: Columns) -> Vector:
    return np.asarray(values["step_s"] + rows["sequences"] * values["sequence_s"])


def _allreduce(values: dict[str, float], rows: Columns) -> Vector:
    return np.asarray(allreduce_s(LinkTerms(**values), rows["bytes"]))
