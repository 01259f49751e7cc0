"""Decode attention over a paged cache in plain torch: the CPU's way, and the reference the GPU kernel is held to.

Gathers the blocks of a few sequences, dequantises them and attends; a fused kernel does so without the copies.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from calibrate.timing.paged_cache import PagedCache, Stored, dequantise

_GATHERED_BYTES = 64 * 2**20  # at once, keys and values each


def paged_decode(query: Tensor, cache: PagedCache, block_tables: Tensor, context_lens: Tensor, longest: int) -> Tensor:
    """Return attention of one new token a sequence over its cached context.

    query (sequences, heads, head_dim); block_tables (sequences, blocks) int32, padded with any valid block;
    context_lens (sequences) int32, the longest of them `longest`. Returns (sequences, heads, head_dim). Query heads
    h * heads / kv_heads and following share KV head h.
    """
    sequences, heads, head_dim = query.shape
    blocks = -(-longest // cache.block_size)
    span = blocks * cache.block_size
    grouped = query.view(sequences, cache.num_kv_heads, heads // cache.num_kv_heads, head_dim)
    row_bytes = span * cache.num_kv_heads * head_dim * query.element_size()
    at_once = max(1, _GATHERED_BYTES // row_bytes)
    ragged = bool((context_lens != span).any())
    out = torch.empty_like(grouped)
    for first in range(0, sequences, at_once):
        rows = slice(first, first + at_once)
        tables = block_tables[rows, :blocks]
        mask = None
        if ragged:
            places = torch.arange(span, device=query.device)
            mask = (places < context_lens[rows, None])[:, None, None, :]
        keys = _gather(cache.key, tables, cache.kv_dtype, query.dtype)
        values = _gather(cache.value, tables, cache.kv_dtype, query.dtype)
        out[rows] = scaled_dot_product_attention(grouped[rows], keys, values, attn_mask=mask)
    return out.view(sequences, heads, head_dim)


def _gather(stored: Stored, tables: Tensor, kv_dtype: str, dtype: torch.dtype) -> Tensor:
    """Return (sequences, kv_heads, tokens, head_dim) of the blocks in `tables`."""
    flat = tables.reshape(-1)
    scales = None if stored.scales is None else stored.scales.index_select(0, flat)
    plain = dequantise(Stored(stored.elements.index_select(0, flat), scales, stored.factor), kv_dtype, dtype)
    sequences, blocks = tables.shape
    return plain.view(sequences, blocks * plain.shape[1], *plain.shape[2:]).transpose(1, 2)
