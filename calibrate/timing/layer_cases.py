"""One whole layer, to check the sum of its operations, and the memory a full step takes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrate.timing.attention_cases import decode_over_pool
from calibrate.timing.cases import Bench, Case
from calibrate.timing.elementwise_cases import gated, norm_with_residual, rotate, sample_at_random
from calibrate.timing.linear import Linear, make_linear
from calibrate.timing.points import Point
from calibrate.timing.prefill_attention import prefill
from calibrate.timing.tensors import noise

_NOTE = "norms, rotary and activation unfused"
_FP32_BYTES = 4

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Attention inside a layer, from query, key and value (tokens, heads, head_dim) to (tokens, query_size)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of copies of one layer, in the type of its activations."""

    linear: dict[str, Linear]
    norm: Tensor

    def forward(self, copy: int, hidden: Tensor, attend: Attend, bench: Bench, angles: Tensor) -> Tensor:
        """Return (tokens, hidden) after attention and MLP."""
        shape, tokens = bench.shape, len(hidden)
        normed, residual = norm_with_residual(hidden, hidden, self.norm)
        qkv = self.linear["qkv"](copy, normed).view(tokens, -1, shape.head_dim)
        turned = rotate(qkv[:, : shape.num_heads + shape.num_kv_heads], angles[0], angles[1])
        attended = attend(turned[:, : shape.num_heads], turned[:, shape.num_heads :], qkv[:, -shape.num_kv_heads :])
        normed, residual = norm_with_residual(self.linear["o"](copy, attended), residual, self.norm)
        return self.linear["down"](copy, gated(self.linear["gate_up"](copy, normed))) + residual


def _prefill(capability: tuple[int, int] | None) -> Attend:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch = [part.transpose(0, 1).unsqueeze(0) for part in (query, key, value)]
        return prefill(batch[0], batch[1], batch[2], capability).squeeze(0).transpose(0, 1).flatten(1)

    return attend


def layer(point: Point, bench: Bench, copies: int) -> Case:
    """Build a prefill of one request without a past, or a decode row a sequence."""
    tokens = point.tokens or 1
    layers = _make_layer(bench, copies)
    hidden, angles = _inputs(tokens, bench)
    decode = point.part == "decode"
    attends = _decode_over(point, bench, copies) if decode else [_prefill(bench.machine.capability)] * copies
    return Case(lambda copy: layers.forward(copy, hidden, attends[copy], bench, angles), copies, note=_NOTE)


def peak_memory(point: Point, bench: Bench, copies: int) -> Case:  # noqa: ARG001 - nothing rotates
    """Memory beyond weights and KV of one layer at the full token budget, then head and sampling of all sequences.

    One layer stands for all: they reuse each other's memory. Read from the allocator on a GPU; on a CPU the sum of the
    tensors alive at once, which is a bound.
    """
    tokens, sequences = point.tokens or 1, point.sequences or 1
    if bench.machine.kind == "cpu":
        return Case(
            lambda _: None,
            label="bound",
            note="sum of the tensors alive at once",
            memory=lambda: _alive_bytes(tokens, sequences, bench),
        )
    one, attend = _make_layer(bench, 1), _prefill(bench.machine.capability)
    hidden, angles = _inputs(tokens, bench)
    sizes = (bench.shape.vocab_size, bench.shape.hidden_size)
    head = make_linear(sizes, bench.dtype_name, bench.machine, bench.dtype, 1)

    def step() -> Tensor:
        return sample_at_random(head(0, one.forward(0, hidden, attend, bench, angles)[:sequences]))

    def read() -> int:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() - hidden.numel() * hidden.element_size()
        step()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated()) - before

    return Case(lambda _: step(), memory=read, note=_NOTE)


def _make_layer(bench: Bench, copies: int) -> Layer:
    linear = {
        part: make_linear(sizes, bench.dtype_name, bench.machine, bench.dtype, copies)
        for part, sizes in bench.shape.linear_parts.items()
    }
    return Layer(linear, torch.ones(bench.shape.hidden_size, dtype=bench.dtype, device=bench.machine.kind))


def _inputs(tokens: int, bench: Bench) -> tuple[Tensor, Tensor]:
    hidden = noise((tokens, bench.shape.hidden_size), bench.dtype, bench.machine.kind)
    return hidden, noise((2, tokens, 1, bench.shape.head_dim // 2), bench.dtype, bench.machine.kind)


def _decode_over(point: Point, bench: Bench, copies: int) -> list[Attend]:
    """Return attention over the cache for each copy; writing to it is timed by itself."""
    decode = decode_over_pool(point, bench, copies)

    def over(copy: int) -> Attend:
        return lambda query, _key, _value: decode(copy, query.contiguous()).flatten(1)

    return [over(copy) for copy in range(copies)]


def _alive_bytes(tokens: int, sequences: int, bench: Bench) -> int:
    shape, element = bench.shape, bench.dtype.itemsize
    attention = 2 * shape.hidden_size + 2 * shape.qkv_size + shape.query_size
    mlp = 2 * shape.hidden_size + 3 * shape.intermediate_size
    logits = sequences * shape.vocab_size * (element + 2 * _FP32_BYTES)
    return max(tokens * max(attention, mlp) * element, tokens * shape.hidden_size * element + logits)
