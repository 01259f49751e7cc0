# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-untyped-def,misc"
# ruff: noqa: ANN001, ANN202, PLR0915, PLR0917 - Triton reads the kernels' signatures itself
"""Decode attention over a paged cache in Triton: split-KV flash decoding that dequantises in the loop.

One program handles the query heads of one KV head of one sequence over one stretch of its context; a second kernel
merges the stretches by their log-sum-exp. Heads are computed as two halves of head_dim, for that is how a 4-bit cache
unpacks. Scales are applied to scores and probabilities, never to the elements: q . (k * scale + zero) is
(q . k) * scale + sum(q) * zero.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from calibrate.timing.paged_cache import PagedCache

_TILE_TOKENS = 64
_LEAST_DOT = 16  # rows and columns tensor cores multiply at least
_STRETCHES_PER_MULTIPROCESSOR = 4
_PLAIN, _E4M3_BITS, _INT8, _INT4 = 0, 1, 2, 3


@triton.jit
def _half(
    pointer,
    places,
    columns,
    mask,
    half: tl.constexpr,
    half_dim: tl.constexpr,
    kind: tl.constexpr,
    compute: tl.constexpr,
):
    # (tile, columns) of one half of each token-head, unscaled, in the type of the dot product
    if kind == 3:
        packed = tl.load(pointer + places[:, None] * half_dim + columns[None, :], mask=mask, other=0)
        return ((packed >> (4 * half)) & 0xF).to(compute)
    spots = pointer + places[:, None] * (2 * half_dim) + half * half_dim + columns[None, :]
    if kind == 1:  # chips before 8.9 do not convert e4m3: its bits are those of an fp16 256 times smaller
        bits = tl.load(spots, mask=mask, other=0).to(tl.int16)
        wide = ((bits & 0x80) << 8) | ((bits & 0x7F) << 7)
        return (wide.to(tl.float16, bitcast=True) * 256.0).to(compute)
    return tl.load(spots, mask=mask, other=0.0).to(compute)


@triton.jit
def _decode_stretch(
    query,
    key,
    value,
    key_scales,
    value_scales,
    block_tables,
    context_lens,
    partial,
    log_sums,
    softmax_scale,
    table_stride,
    stretch_tokens,
    stretches,
    kv_heads: tl.constexpr,
    group: tl.constexpr,
    group_rows: tl.constexpr,
    half_dim: tl.constexpr,
    half_columns: tl.constexpr,
    block_size: tl.constexpr,
    tile: tl.constexpr,
    kind: tl.constexpr,
):
    sequence, head, stretch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    compute: tl.constexpr = query.dtype.element_ty
    start = stretch * stretch_tokens
    end = tl.minimum(start + stretch_tokens, tl.load(context_lens + sequence))
    rows, columns = tl.arange(0, group_rows), tl.arange(0, half_columns)
    query_row = (sequence * kv_heads + head) * group + rows
    query_mask = (rows < group)[:, None] & (columns < half_dim)[None, :]
    spots = query + query_row[:, None] * (2 * half_dim) + columns[None, :]
    query_low = tl.load(spots, mask=query_mask, other=0.0)
    query_high = tl.load(spots + half_dim, mask=query_mask, other=0.0)
    query_sum = tl.sum(query_low.to(tl.float32), 1) + tl.sum(query_high.to(tl.float32), 1)
    largest = tl.full([group_rows], float("-inf"), tl.float32)
    total = tl.zeros([group_rows], tl.float32)
    low = tl.zeros([group_rows, half_columns], tl.float32)
    high = tl.zeros([group_rows, half_columns], tl.float32)
    for first in range(start, end, tile):
        tokens = first + tl.arange(0, tile)
        valid = tokens < end
        blocks = tl.load(block_tables + sequence * table_stride + tokens // block_size, mask=valid, other=0)
        places = (blocks.to(tl.int64) * block_size + tokens % block_size) * kv_heads + head
        mask = valid[:, None] & (columns < half_dim)[None, :]
        key_low = _half(key, places, columns, mask, 0, half_dim, kind, compute)
        key_high = _half(key, places, columns, mask, 1, half_dim, kind, compute)
        scores = tl.dot(query_low, tl.trans(key_low), input_precision="ieee")
        scores += tl.dot(query_high, tl.trans(key_high), input_precision="ieee")
        if kind == 2:
            scores *= tl.load(key_scales + places, mask=valid, other=0.0).to(tl.float32)[None, :]
        if kind == 3:
            scores *= tl.load(key_scales + 2 * places, mask=valid, other=0.0).to(tl.float32)[None, :]
            zero = tl.load(key_scales + 2 * places + 1, mask=valid, other=0.0).to(tl.float32)
            scores += query_sum[:, None] * zero[None, :]
        scores = tl.where(valid[None, :], scores * softmax_scale, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        shrink = tl.exp(largest - new_largest)
        weights = tl.exp(scores - new_largest[:, None])
        total = total * shrink + tl.sum(weights, 1)
        shift = tl.zeros([group_rows], tl.float32)
        if kind == 2:
            weights *= tl.load(value_scales + places, mask=valid, other=0.0).to(tl.float32)[None, :]
        if kind == 3:
            zero = tl.load(value_scales + 2 * places + 1, mask=valid, other=0.0).to(tl.float32)
            shift = tl.sum(weights * zero[None, :], 1)
            weights *= tl.load(value_scales + 2 * places, mask=valid, other=0.0).to(tl.float32)[None, :]
        value_low = _half(value, places, columns, mask, 0, half_dim, kind, compute)
        value_high = _half(value, places, columns, mask, 1, half_dim, kind, compute)
        narrow = weights.to(compute)
        low = low * shrink[:, None] + tl.dot(narrow, value_low, input_precision="ieee") + shift[:, None]
        high = high * shrink[:, None] + tl.dot(narrow, value_high, input_precision="ieee") + shift[:, None]
        largest = new_largest
    share = tl.where(total > 0, total, 1.0)  # a stretch beyond the context has no token
    out_row = query_row * stretches + stretch
    spots = partial + out_row[:, None] * (2 * half_dim) + columns[None, :]
    tl.store(spots, low / share[:, None], mask=query_mask)
    tl.store(spots + half_dim, high / share[:, None], mask=query_mask)
    tl.store(log_sums + out_row, tl.where(total > 0, largest + tl.log(share), float("-inf")), mask=rows < group)


@triton.jit
def _merge_stretches(
    partial,
    log_sums,
    out,
    value_factor,
    stretches,
    head_dim: tl.constexpr,
    columns: tl.constexpr,
    most_stretches: tl.constexpr,
):
    row = tl.program_id(0)
    every, column = tl.arange(0, most_stretches), tl.arange(0, columns)
    sums = tl.load(log_sums + row * stretches + every, mask=every < stretches, other=float("-inf"))
    weights = tl.exp(sums - tl.max(sums, 0))
    weights /= tl.sum(weights, 0)
    mask = (every < stretches)[:, None] & (column < head_dim)[None, :]
    parts = tl.load(partial + (row * stretches + every)[:, None] * head_dim + column[None, :], mask=mask, other=0.0)
    merged = tl.sum(parts * weights[:, None], 0) * value_factor
    tl.store(out + row * head_dim + column, merged.to(out.dtype.element_ty), mask=column < head_dim)


def paged_decode(
    query: Tensor,
    cache: PagedCache,
    block_tables: Tensor,
    context_lens: Tensor,
    longest: int,
    *,
    multiprocessors: int,
    native_fp8: bool,
) -> Tensor:
    """Return what `paged_attention_torch.paged_decode` returns, on a GPU, and without waiting for it.

    `native_fp8` says the chip converts e4m3 itself (8.9 and later). Contexts are at least one token long.
    """
    sequences, heads, head_dim = query.shape
    kv_heads, half_dim = cache.num_kv_heads, head_dim // 2
    group = heads // kv_heads
    stretches, stretch_tokens = stretches_of(longest, sequences * kv_heads, multiprocessors)
    partial = torch.empty((sequences * heads, stretches, head_dim), dtype=torch.float32, device=query.device)
    log_sums = torch.empty((sequences * heads, stretches), dtype=torch.float32, device=query.device)
    out = torch.empty_like(query)
    kind = {"int8": _INT8, "int4": _INT4, "fp8": _PLAIN if native_fp8 else _E4M3_BITS}.get(cache.kv_dtype, _PLAIN)
    key, value = cache.key.elements, cache.value.elements
    if kind == _E4M3_BITS:
        key, value = key.view(torch.uint8), value.view(torch.uint8)
    _decode_stretch[(sequences, kv_heads, stretches)](
        query,
        key,
        value,
        cache.key.scales,
        cache.value.scales,
        block_tables,
        context_lens,
        partial,
        log_sums,
        head_dim**-0.5 * cache.key.factor,
        block_tables.stride(0),
        stretch_tokens,
        stretches,
        kv_heads=kv_heads,
        group=group,
        group_rows=max(_LEAST_DOT, triton.next_power_of_2(group)),
        half_dim=half_dim,
        half_columns=max(_LEAST_DOT, triton.next_power_of_2(half_dim)),
        block_size=cache.block_size,
        tile=_TILE_TOKENS,
        kind=kind,
        num_warps=4,
    )
    _merge_stretches[(sequences * heads,)](
        partial,
        log_sums,
        out,
        cache.value.factor,
        stretches,
        head_dim=head_dim,
        columns=triton.next_power_of_2(head_dim),
        most_stretches=triton.next_power_of_2(stretches),
    )
    return out


def stretches_of(longest: int, programs: int, multiprocessors: int) -> tuple[int, int]:
    """Return how many stretches a context is cut into, and their tokens: enough to fill the GPU, whole tiles each."""
    tiles = -(-longest // _TILE_TOKENS)
    wanted = -(-multiprocessors * _STRETCHES_PER_MULTIPROCESSOR // programs)
    tiles_each = -(-tiles // max(1, min(tiles, wanted, 256)))
    return -(-tiles // tiles_each), tiles_each * _TILE_TOKENS
