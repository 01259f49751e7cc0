"""Prefill and decode attention of one layer."""

from collections.abc import Callable

import torch
from torch import Tensor

from calibrate.timing.cases import Bench, Case
from calibrate.timing.machine import Machine
from calibrate.timing.paged_cache import PagedCache, pool
from calibrate.timing.points import Point
from calibrate.timing.prefill_attention import prefill
from calibrate.timing.tensors import noise, permutation

PagedDecode = Callable[[Tensor, PagedCache, Tensor, Tensor, int], Tensor]


def prefill_attention(point: Point, bench: Bench, copies: int) -> Case:
    """Build new tokens over contiguous keys and values."""
    shape, machine, sequences, new = bench.shape, bench.machine, point.sequences or 1, point.new_tokens or 1
    query = noise((sequences, shape.num_heads, new, shape.head_dim), bench.dtype, machine.kind)
    kv_shape = (copies, 2, sequences, shape.num_kv_heads, (point.past_tokens or 0) + new, shape.head_dim)
    cache = noise(kv_shape, bench.dtype, machine.kind)
    note = "contiguous keys and values"
    return Case(lambda copy: prefill(query, cache[copy, 0], cache[copy, 1], machine.capability), copies, note=note)


def decode_attention(point: Point, bench: Bench, copies: int) -> Case:
    """Build one token a sequence over a paged cache whose blocks lie anywhere; copies stand for layers."""
    shape, machine = bench.shape, bench.machine
    decode = decode_over_pool(point, bench, copies)
    query = noise((point.sequences or 1, shape.num_heads, shape.head_dim), bench.dtype, machine.kind)
    emulated = machine.kind == "cpu" and point.kv_cache_dtype != bench.dtype_name
    note = "gathers blocks before it attends" if machine.kind == "cpu" else "Triton kernel of kvcliff"
    return Case(lambda copy: decode(copy, query), copies, "emulated" if emulated else "measured", note)


def decode_over_pool(point: Point, bench: Bench, copies: int) -> Callable[[int, Tensor], Tensor]:
    """Return decode attention over one pool: from a copy's number and (sequences, heads, head_dim) to the same."""
    shape, machine, sequences = bench.shape, bench.machine, point.sequences or 1
    context, shared = point.past_tokens or 1, (point.shared_tokens or 0) // bench.block_size
    per_copy = shared + sequences * (-(-context // bench.block_size) - shared)
    blocks = copies * per_copy
    cache = pool((blocks, bench.block_size, shape.num_kv_heads, shape.head_dim), point.kv_cache_dtype, machine.kind)
    tables = block_tables(permutation(blocks, machine.kind).view(copies, per_copy), sequences, shared)
    lengths = torch.full((sequences,), context, dtype=torch.int32, device=machine.kind)
    decode = paged_decode_on(machine)
    return lambda copy, query: decode(query, cache, tables[copy], lengths, context)


def block_tables(blocks: Tensor, sequences: int, shared: int) -> Tensor:
    """Return (copies, sequences, blocks a sequence) int32 from (copies, blocks): `shared` common ones lead each row."""
    copies = len(blocks)
    common = blocks[:, None, :shared].expand(copies, sequences, shared)
    return torch.cat([common, blocks[:, shared:].view(copies, sequences, -1)], 2).int().contiguous()


def paged_decode_on(machine: Machine) -> PagedDecode:
    """Return this machine's way to attend over a paged cache. Triton is imported only for a GPU."""
    if machine.kind == "cpu":
        from calibrate.timing.paged_attention_torch import paged_decode

        return paged_decode
    from calibrate.timing.paged_attention_triton import paged_decode as fused

    def decode(query: Tensor, cache: PagedCache, tables: Tensor, lengths: Tensor, longest: int) -> Tensor:
        return fused(
            query, cache, tables, lengths, longest, multiprocessors=machine.multiprocessors, native_fp8=machine.has_fp8
        )

    return decode
