"""Tensors to time with: random content, made fast, from one seed."""

from functools import lru_cache

import torch
from torch import Tensor

_BLOCK = 2**20
TORCH_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp8": torch.float8_e4m3fn,
}


def noise(shape: tuple[int, ...], dtype: torch.dtype, device: str, scale: float = 1.0) -> Tensor:
    """Return normal noise; a million random numbers are repeated, for drawing them all would outlast the timing.

    All-zero inputs would draw less power and so run at higher clocks than real ones.
    """
    out = torch.empty(shape, dtype=dtype, device=device)
    fill(out.view(-1), (_drawn()[: out.numel()] * scale).to(device, dtype))
    return out


@lru_cache(maxsize=1)
def _drawn() -> Tensor:
    return torch.randn(_BLOCK, generator=_seeded())


def fill(flat: Tensor, block: Tensor) -> None:
    """Fill `flat` (n, ...) with repetitions of `block` (m, ...), m at most n."""
    whole = len(flat) // len(block)
    flat[: whole * len(block)].view(whole, *block.shape).copy_(block.expand(whole, *block.shape))
    flat[whole * len(block) :].copy_(block[: len(flat) - whole * len(block)])


def repeated(block: Tensor, count: int) -> Tensor:
    """Return (count, ...) made of repetitions of `block` (m, ...)."""
    out = torch.empty((count, *block.shape[1:]), dtype=block.dtype, device=block.device)
    fill(out, block[:count])
    return out


def permutation(count: int, device: str) -> Tensor:
    """Return 0..count-1 in random order: KV blocks of a busy pool lie anywhere."""
    return torch.randperm(count, generator=_seeded()).to(device)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)
