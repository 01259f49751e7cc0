"""Attention of new tokens over past and new ones, each new token seeing what came before it."""

import math

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

_FLASH_SINCE = (8, 0)  # and with it query heads that share KV heads


def prefill(query: Tensor, key: Tensor, value: Tensor, capability: tuple[int, int] | None = None) -> Tensor:
    """Return (sequences, heads, new, head_dim) from a query of that shape.

    key and value (sequences, kv_heads, past + new, head_dim). `capability` is that of the GPU, None on a CPU.
    """
    if capability is None:
        return _two_parts(query, key, value)
    if capability < _FLASH_SINCE:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    mask = causal_lower_right(query.shape[2], key.shape[2])
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=key.shape[1] != query.shape[1])


def _two_parts(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend to the past without a mask and to the new tokens causally, and merge by log-sum-exp.

    torch's CPU kernel knows no causal mask that is not square, and a written-out mask would cost gigabytes.
    """
    sequences, heads, new, head_dim = query.shape
    kv_heads, past = key.shape[1], key.shape[2] - new
    group = heads // kv_heads
    own_key, own_value = (part[:, :, past:].repeat_interleave(group, 1) for part in (key, value))
    own, own_sum = _flash(query, own_key, own_value, is_causal=True)
    if past == 0:
        return own
    grouped = query.reshape(sequences, kv_heads, group * new, head_dim)  # heads that share KV, as further queries
    old, old_sum = _flash(grouped, key[:, :, :past], value[:, :, :past], is_causal=False)
    old, old_sum = old.reshape(own.shape), old_sum.reshape(own_sum.shape)
    share = torch.sigmoid(old_sum - own_sum).unsqueeze(-1).to(own.dtype)
    return torch.lerp(own, old, share)


def _flash(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Return attention and the log-sum-exp of its scores, (sequences, heads, rows) in fp32."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001 - the only way to the sums
    out, sums = kernel(query, key, value, 0.0, is_causal, scale=1 / math.sqrt(query.shape[-1]))
    return out, sums
