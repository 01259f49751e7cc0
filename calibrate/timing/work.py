"""The arithmetic and the memory traffic a point cannot do without: what it is paced, bounded and judged by.

Only bytes that must come from device memory count: weights, KV (what rows share, once), and the tensors of
elementwise work. Activations of a linear layer may still lie in the cache.
"""

from dataclasses import dataclass

from calibrate.timing.dtypes import PLAIN_BYTES, kv_head_bytes, weight_bytes
from calibrate.timing.layer_shape import LayerShape
from calibrate.timing.points import Point

_FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Work:
    """Of one call: FLOPs, bytes from device memory, and all bytes its tensors occupy."""

    flops: float
    read_bytes: float
    tensor_bytes: float


def work(point: Point, shape: LayerShape, dtype: str) -> Work:
    """Return the work of `point`, where activations are stored as `dtype`."""
    return _WORK[point.operation](point, shape, PLAIN_BYTES[dtype])


def _gemm(point: Point, _shape: LayerShape, element: int) -> Work:
    tokens, out, inner = point.tokens or 0, point.out_features or 0, point.in_features or 0
    weights = weight_bytes(point.weight_dtype, out, inner)
    return Work(2.0 * tokens * out * inner, weights, weights + tokens * (inner + out) * element)


def _prefill(point: Point, shape: LayerShape, element: int) -> Work:
    sequences, new, past = point.sequences or 0, point.new_tokens or 0, point.past_tokens or 0
    pairs = sequences * new * (past + (new + 1) / 2)
    keys = sequences * (new + past) * shape.num_kv_heads * kv_head_bytes(point.kv_cache_dtype, shape.head_dim)
    rows = 2 * sequences * new * shape.query_size * element
    return Work(4 * pairs * shape.query_size, keys, keys + rows)


def _decode(point: Point, shape: LayerShape, element: int) -> Work:
    sequences, context, shared = point.sequences or 0, point.past_tokens or 0, point.shared_tokens or 0
    tokens = shared + sequences * (context - shared)
    keys = tokens * shape.num_kv_heads * kv_head_bytes(point.kv_cache_dtype, shape.head_dim)
    return Work(4.0 * sequences * context * shape.query_size, keys, keys + 2 * sequences * shape.query_size * element)


def _elementwise(point: Point, shape: LayerShape, element: int) -> Work:
    """Count as read what comes in; what goes out may be overwritten in the cache before it gets to memory."""
    tokens = point.tokens or 0
    heads = (shape.num_heads + shape.num_kv_heads) * shape.head_dim * element
    hidden = shape.hidden_size * element
    if point.part == "kv_write":
        read = shape.num_kv_heads * kv_head_bytes(point.kv_cache_dtype, shape.head_dim)  # here the slots are cold
        written = 2.0 * shape.num_kv_heads * shape.head_dim * element
    else:
        read, written = {
            "norm": (2 * hidden, 2 * hidden),  # with the residual
            "rotary": (heads, heads),
            "activation": (2 * shape.intermediate_size * element, shape.intermediate_size * element),
            "embedding": (hidden, hidden),
            "quantise": (hidden, shape.hidden_size),
        }[point.part]
    return Work(0.0, tokens * read, tokens * (read + written))


def _head(point: Point, shape: LayerShape, element: int) -> Work:
    rows, weights = point.sequences or 0, shape.vocab_size * shape.hidden_size * element
    logits = rows * (shape.vocab_size + shape.hidden_size) * element
    return Work(2.0 * rows * shape.vocab_size * shape.hidden_size, weights, weights + logits)


def _sampling(point: Point, shape: LayerShape, element: int) -> Work:
    logits = (point.sequences or 0) * shape.vocab_size
    buffers = 3 * _FP32_BYTES if point.part == "random" else 0
    return Work(0.0, logits * element, logits * (element + buffers))


def _layer(point: Point, shape: LayerShape, element: int) -> Work:
    tokens, sequences, past = point.tokens or 0, point.sequences or 0, point.past_tokens or 0
    params = sum(out * inner for out, inner in shape.linear_parts.values())
    decode = point.part == "decode"
    pairs = tokens * past if decode else tokens * (past + (tokens / sequences + 1) / 2)
    kv_tokens = sequences * past if decode else tokens
    keys = kv_tokens * shape.num_kv_heads * 2 * shape.head_dim * element
    flops = 2.0 * tokens * params + 4.0 * pairs * shape.query_size
    activations = tokens * (4 * shape.hidden_size + shape.qkv_size + 3 * shape.intermediate_size) * element
    return Work(flops, params * element + keys, params * element + keys + activations)


def _peak_memory(point: Point, shape: LayerShape, element: int) -> Work:
    forward = _layer(Point("layer", "prefill", tokens=point.tokens, sequences=1, past_tokens=0), shape, element)
    rows = Point("head", sequences=point.sequences)
    head, sampling = (
        _head(rows, shape, element),
        _sampling(Point("sampling", "random", sequences=point.sequences), shape, element),
    )
    parts = (forward, head, sampling)
    return Work(*(sum(getattr(part, name) for part in parts) for name in ("flops", "read_bytes", "tensor_bytes")))


def _copy(point: Point, _shape: LayerShape, _element: int) -> Work:
    moved = float(point.bytes or 0)
    return Work(0.0, moved, moved)


def _launch(_point: Point, _shape: LayerShape, _element: int) -> Work:
    return Work(0.0, 0.0, 0.0)


_WORK = {
    "gemm": _gemm,
    "prefill_attention": _prefill,
    "decode_attention": _decode,
    "elementwise": _elementwise,
    "head": _head,
    "sampling": _sampling,
    "layer": _layer,
    "peak_memory": _peak_memory,
    "copy": _copy,
    "launch": _launch,
}
