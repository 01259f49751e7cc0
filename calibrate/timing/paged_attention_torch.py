"""Decode attention over a paged cache in plain torch: the CPU's way, and the reference the GPU kernel is held to.

Gathers the blocks of one sequence after the other, dequantises them and attends; a fused kernel does so without the
copies. Each sequence costs what its own context does, as in the kernels of engines.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from calibrate.timing.paged_cache import PagedCache, Stored, dequantise


def paged_decode(query: Tensor, cache: PagedCache, block_tables: Tensor, context_lens: Tensor, longest: int) -> Tensor:  # noqa: ARG001 - the GPU's needs it
    """Return attention of one new token a sequence over its cached context.

    query (sequences, heads, head_dim); block_tables (sequences, blocks) int32, padded with any valid block;
    context_lens (sequences) int32, the longest of them `longest`. Returns (sequences, heads, head_dim). Query heads
    h * heads / kv_heads and following share KV head h.
    """
    sequences, heads, head_dim = query.shape
    grouped = query.view(sequences, cache.num_kv_heads, heads // cache.num_kv_heads, head_dim)
    out = torch.empty_like(grouped)
    for row, length in enumerate(context_lens.tolist()):
        tables = block_tables[row : row + 1, : -(-length // cache.block_size)]
        keys, values = (
            gather(stored, tables, cache.kv_dtype, query.dtype)[:, :, :length] for stored in (cache.key, cache.value)
        )
        out[row] = scaled_dot_product_attention(grouped[row : row + 1], keys, values)[0]
    return out.view(sequences, heads, head_dim)


def gather(stored: Stored, tables: Tensor, kv_dtype: str, dtype: torch.dtype) -> Tensor:
    """Return (sequences, kv_heads, tokens, head_dim) of the blocks in `tables`."""
    flat = tables.reshape(-1)
    scales = None if stored.scales is None else stored.scales.index_select(0, flat)
    plain = dequantise(Stored(stored.elements.index_select(0, flat), scales, stored.factor), kv_dtype, dtype)
    sequences, blocks = tables.shape
    return plain.view(sequences, blocks * plain.shape[1], *plain.shape[2:]).transpose(1, 2)
