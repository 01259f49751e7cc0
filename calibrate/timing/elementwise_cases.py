"""What a layer does between its matrix products, and sampling. Plain torch; engines fuse some of it."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from calibrate.timing.cases import Bench, Case
from calibrate.timing.paged_cache import pool, store
from calibrate.timing.points import Point
from calibrate.timing.tensors import noise, permutation

_EPSILON = 1e-6
_E4M3_LARGEST = 448.0
_UNFUSED = "several torch kernels where an engine has one"


def elementwise(point: Point, bench: Bench, copies: int) -> Case:
    """Return the kernel that `part` names."""
    if point.part == "kv_write":
        return _kv_write(point, bench, copies)
    call = _PARTS[point.part](point.tokens or 1, bench, copies)
    fused = point.part == "embedding"
    return Case(call, copies, "measured" if fused else "emulated", "" if fused else _UNFUSED)


def norm_with_residual(hidden: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the normed sum and the sum, each (tokens, hidden)."""
    total = hidden + residual
    return rms_norm(total, weight.shape, weight, _EPSILON), total


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return (tokens, heads, head_dim) turned by angles (tokens, 1, head_dim / 2)."""
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def gated(gate_up: Tensor) -> Tensor:
    """Return silu(gate) * up, half as wide."""
    gate, up = gate_up.chunk(2, -1)
    return silu(gate) * up


def sample_at_random(logits: Tensor) -> Tensor:
    """Return token ids (sequences) drawn by the softmax of (sequences, vocabulary): the largest of p / exponential."""
    probabilities = torch.softmax(logits, -1, dtype=torch.float32)
    return probabilities.div_(torch.empty_like(probabilities).exponential_()).argmax(-1)


def sampling(point: Point, bench: Bench, copies: int) -> Case:
    """From logits to token ids: the largest, or one drawn at random."""
    logits = noise((copies, point.sequences or 1, bench.shape.vocab_size), bench.dtype, bench.machine.kind)
    if point.part == "greedy":
        return Case(lambda copy: logits[copy].argmax(-1), copies)
    return Case(lambda copy: sample_at_random(logits[copy]), copies, "emulated", _UNFUSED)


def _norm(tokens: int, bench: Bench, copies: int) -> Callable[[int], Tensor]:
    states = noise((copies, 2, tokens, bench.shape.hidden_size), bench.dtype, bench.machine.kind)
    weight = torch.ones(bench.shape.hidden_size, dtype=bench.dtype, device=bench.machine.kind)
    return lambda copy: norm_with_residual(states[copy, 0], states[copy, 1], weight)[0]


def _rotary(tokens: int, bench: Bench, copies: int) -> Callable[[int], Tensor]:
    shape = bench.shape
    heads = noise(
        (copies, tokens, shape.num_heads + shape.num_kv_heads, shape.head_dim), bench.dtype, bench.machine.kind
    )
    angles = noise((2, tokens, 1, shape.head_dim // 2), bench.dtype, bench.machine.kind)
    return lambda copy: rotate(heads[copy], angles[0], angles[1])


def _activation(tokens: int, bench: Bench, copies: int) -> Callable[[int], Tensor]:
    gate_up = noise((copies, tokens, 2 * bench.shape.intermediate_size), bench.dtype, bench.machine.kind)
    return lambda copy: gated(gate_up[copy])


def _embedding(tokens: int, bench: Bench, copies: int) -> Callable[[int], Tensor]:
    table = noise((bench.shape.vocab_size, bench.shape.hidden_size), bench.dtype, bench.machine.kind)
    ids = torch.randint(0, bench.shape.vocab_size, (copies, tokens)).to(bench.machine.kind)
    return lambda copy: torch.nn.functional.embedding(ids[copy], table)


def _quantise(tokens: int, bench: Bench, copies: int) -> Callable[[int], Tensor]:
    states = noise((copies, tokens, bench.shape.hidden_size), bench.dtype, bench.machine.kind)

    def call(copy: int) -> Tensor:
        scale = states[copy].abs().amax(-1, keepdim=True) / _E4M3_LARGEST
        return (states[copy] / scale).to(torch.float8_e4m3fn)

    return call


def _kv_write(point: Point, bench: Bench, copies: int) -> Case:
    """Store the keys and values of new tokens in slots of a paged cache, quantised on the way."""
    shape, tokens, device = bench.shape, point.tokens or 1, bench.machine.kind
    blocks = copies * -(-tokens // bench.block_size)
    cache = pool((blocks, bench.block_size, shape.num_kv_heads, shape.head_dim), point.kv_cache_dtype, device)
    new = noise((2, tokens, shape.num_kv_heads, shape.head_dim), bench.dtype, device)
    slots = permutation(blocks * bench.block_size, device)[: copies * tokens].view(copies, tokens)

    def call(copy: int) -> None:
        store(cache, new[0], new[1], slots[copy])

    plain = point.kv_cache_dtype == bench.dtype_name
    return Case(call, copies, "measured" if plain else "emulated", "" if plain else _UNFUSED)


_PARTS = {
    "norm": _norm,
    "rotary": _rotary,
    "activation": _activation,
    "embedding": _embedding,
    "quantise": _quantise,
}
