"""A paged KV cache in plain or quantised form; one layout for the torch and the Triton kernel.

A block holds `block_size` tokens. What a token-head stores, by type:

    bf16 fp16 fp32   head_dim elements
    fp8              head_dim e4m3 elements; one factor for the whole tensor, as vLLM has it
    int8             head_dim signed bytes and one scale: x = q * scale
    int4             head_dim / 2 bytes, scale and zero point: x = q * scale + zero; byte i has element i in its low
                     nibble and element i + head_dim / 2 in its high one, so that each half unpacks in one piece
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from calibrate.timing.tensors import TORCH_DTYPES, noise, repeated

_E4M3_LARGEST = 448.0
_SCALE_DTYPE = torch.float16


@dataclass(frozen=True, slots=True)
class Stored:
    """Keys or values of a pool.

    elements (blocks, block_size, kv_heads, head_dim or head_dim / 2); scales (blocks, block_size, kv_heads, 1 or 2) in
    16 bits or None; factor multiplies everything (fp8), else 1.
    """

    elements: Tensor
    scales: Tensor | None
    factor: float


@dataclass(frozen=True, slots=True)
class PagedCache:
    """One layer's pool of KV blocks."""

    kv_dtype: str
    key: Stored
    value: Stored

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return self.key.elements.shape[1]

    @property
    def num_kv_heads(self) -> int:
        """KV heads of a token."""
        return self.key.elements.shape[2]


def quantise(plain: Tensor, kv_dtype: str, factor: float | None = None) -> Stored:
    """Return (..., head_dim) stored as `kv_dtype`; head_dim must be even.

    `factor` is that of an fp8 tensor, found from its largest element where None.
    """
    if kv_dtype == "fp8":
        if factor is None:
            factor = max(float(plain.abs().max()) / _E4M3_LARGEST, 1e-12)
        return Stored((plain / factor).clamp(-_E4M3_LARGEST, _E4M3_LARGEST).to(torch.float8_e4m3fn), None, factor)
    if kv_dtype in TORCH_DTYPES:
        return Stored(plain.to(TORCH_DTYPES[kv_dtype]), None, 1.0)
    exact = plain.float()
    if kv_dtype == "int8":
        scales = (exact.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-6).to(_SCALE_DTYPE)
        return Stored((exact / scales).round().clamp(-127, 127).to(torch.int8), scales, 1.0)
    return _int4(exact)


def _int4(exact: Tensor) -> Stored:
    low, high = exact.amin(-1, keepdim=True), exact.amax(-1, keepdim=True)
    scales = torch.cat([((high - low) / 15).clamp(min=1e-6), low], -1).to(_SCALE_DTYPE)
    scale, zero = scales.float().chunk(2, -1)
    digits = ((exact - zero) / scale).round().clamp(0, 15).to(torch.uint8)
    first, second = digits.chunk(2, -1)
    return Stored(first | (second << 4), scales, 1.0)


def dequantise(stored: Stored, kv_dtype: str, dtype: torch.dtype) -> Tensor:
    """Return (..., head_dim) in `dtype`."""
    if stored.scales is None:
        plain = stored.elements.to(dtype)
        return plain if kv_dtype != "fp8" else plain * stored.factor
    scale = stored.scales[..., :1].to(dtype)
    if kv_dtype == "int8":
        return stored.elements.to(dtype) * scale
    digits = torch.cat([stored.elements & 0xF, stored.elements >> 4], -1)
    return digits.to(dtype) * scale + stored.scales[..., 1:].to(dtype)


def pool(shape: tuple[int, int, int, int], kv_dtype: str, device: str) -> PagedCache:
    """Return a pool of `shape` (blocks, block_size, kv_heads, head_dim) with random content, none of it NaN.

    A few random blocks repeat.
    """
    blocks, *of_block = shape
    drawn = min(blocks, max(1, 2**20 // prod(of_block)))
    few = quantise(noise((drawn, *of_block), torch.float32, device), kv_dtype)

    def many() -> Stored:
        scales = None if few.scales is None else repeated(few.scales, blocks)
        return Stored(repeated(few.elements, blocks), scales, few.factor)

    return PagedCache(kv_dtype, many(), many())


def store(cache: PagedCache, key: Tensor, value: Tensor, slots: Tensor) -> None:
    """Write keys and values (tokens, kv_heads, head_dim) to `slots` (tokens), each block * block_size + place."""
    for plain, into in ((key, cache.key), (value, cache.value)):
        new = quantise(plain, cache.kv_dtype, factor=into.factor)
        into.elements.view(torch.uint8).flatten(0, 1)[slots] = new.elements.view(torch.uint8)
        if into.scales is not None and new.scales is not None:
            into.scales.flatten(0, 1)[slots] = new.scales
