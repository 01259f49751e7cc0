"""Which points to time, coarse to fine: however early a run stops, what it has spans the whole range.

Level 0 has the ends and the middle of every axis, each further level halves the gaps. Within a level the operations
take turns, so no kind of operation is left for last.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, product, zip_longest

from calibrate.timing.layer_shape import LayerShape
from calibrate.timing.points import Point

BLOCK_SIZE = 16  # tokens of a KV block, vLLM's default on GPUs

_TOKENS = (
    (1, 64, 1024, 8192),
    (16, 256, 4096),
    (4, 32, 128, 512, 2048, 16384),
    (2, 8, 24, 48, 96, 192, 384, 768, 1536, 3072, 6144, 12288),
)
_FEW_TOKENS = ((64,), (1, 1024), (16, 256, 4096))  # for what is a small part of a step
_SEQUENCES = ((1, 256), (16, 64), (4, 128, 512, 1024), (2, 8, 32))
_NEW_TOKENS = ((512, 2048), (128, 8192), (32, 1024, 4096), (16, 64, 256, 16384))
_PAST_TOKENS = ((0, 8192), (2048, 32768), (256, 512, 16384, 122880), (1024, 4096, 65536))
_BATCHES = ((1, 32), (8, 128), (4, 64, 256), (2, 16))
_CONTEXTS = ((1024, 8192), (256, 4096, 32768), (64, 512, 16384, 131072), (128, 2048, 65536))
_SHARES = ((0.0,), (0.9,), (0.5,), ())  # of the context that all rows have in common
LEVELS = len(_TOKENS)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the axes reach."""

    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    max_context_tokens: int = 131072


@dataclass(frozen=True, slots=True)
class Types:
    """What is stored how. The first weight and KV type are timed from the coarsest level on."""

    dtype: str  # of activations, plain weights, norms and head
    weight_dtypes: tuple[str, ...]
    kv_dtypes: tuple[str, ...]


def grid(shape: LayerShape, types: Types, limits: Limits, device: str) -> list[list[Point]]:
    """Return the points of each level, coarsest first. `device` is cpu or cuda."""
    levels: list[list[Point]] = []
    seen: set[Point] = set()
    for level in range(LEVELS):
        families = (
            _machine(level, types, device),
            _linear(level, shape, types, limits),
            _prefill(level, types, limits),
            _decode(level, types, limits),
            _elementwise(level, shape, types, limits),
            _head_and_sampling(level, shape, types, limits),
            () if shape.has_experts else _layers(level, types, limits),
        )
        turns = chain.from_iterable(zip_longest(*families))
        fresh = dict.fromkeys(point for point in turns if point is not None and point not in seen)
        seen.update(fresh)
        levels.append(list(fresh))
    return levels


def _upto(axis: tuple[tuple[int, ...], ...], level: int, most: int) -> list[int]:
    """Return the values of an axis at this level and coarser ones, the largest allowed among them."""
    values = chain.from_iterable(axis[: level + 1])
    return sorted({value for value in values if value < most} | {most})


def _combine(
    first: tuple[tuple[int, ...], ...], second: tuple[tuple[int, ...], ...], level: int, most: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose levels add up to at most `level`: a sparse grid, fine along one axis at a time.

    Values beyond `most` become it.
    """
    for one in range(level + 1):
        for two in range(level + 1 - one):
            for left, right in product(first[one], second[two]):
                yield min(left, most[0]), min(right, most[1])


def _machine(level: int, types: Types, device: str) -> Iterator[Point]:
    if level > 0:
        return
    cuda = device == "cuda"
    yield Point("copy", bytes=2**31 if cuda else 2**28)
    side = 8192 if cuda else 1024
    for weight_dtype in types.weight_dtypes:
        yield Point("gemm", "square", weight_dtype, tokens=side, out_features=side, in_features=side)
    yield Point("launch", "kernel", graph="eager")
    if cuda:
        yield Point("launch", "kernel", graph="cuda_graph")
        yield Point("launch", "replay", graph="cuda_graph")


def _linear(level: int, shape: LayerShape, types: Types, limits: Limits) -> Iterator[Point]:
    for place, weight_dtype in enumerate(types.weight_dtypes):
        own = level - min(place, 1)  # further types one level later
        if own < 0:
            continue
        for tokens in _upto(_TOKENS, own, limits.max_num_batched_tokens):
            for part, (out_features, in_features) in shape.linear_parts.items():
                yield Point(
                    "gemm", part, weight_dtype, tokens=tokens, out_features=out_features, in_features=in_features
                )


def _prefill(level: int, types: Types, limits: Limits) -> Iterator[Point]:
    most = (limits.max_num_batched_tokens, limits.max_context_tokens)
    for new, past in _combine(_NEW_TOKENS, _PAST_TOKENS, level, most):
        own = min(new, limits.max_context_tokens)
        before = min(past, limits.max_context_tokens - own)
        yield Point("prefill_attention", kv_cache_dtype=types.dtype, sequences=1, new_tokens=own, past_tokens=before)
    if level >= 2:
        for sequences in (4, 16):
            if 512 * sequences <= limits.max_num_batched_tokens:
                yield Point(
                    "prefill_attention", kv_cache_dtype=types.dtype, sequences=sequences, new_tokens=512, past_tokens=0
                )


def _decode(level: int, types: Types, limits: Limits) -> Iterator[Point]:
    most = (limits.max_num_seqs, limits.max_context_tokens)
    for batch, context in _combine(_BATCHES, _CONTEXTS, level, most):
        for share in chain.from_iterable(_SHARES[: level + 1]):
            shared = int(context * share) // BLOCK_SIZE * BLOCK_SIZE
            if batch == 1 and shared:
                continue
            for kv_dtype in types.kv_dtypes:
                yield Point(
                    "decode_attention",
                    kv_cache_dtype=kv_dtype,
                    sequences=batch,
                    past_tokens=context,
                    shared_tokens=shared,
                )


def _elementwise(level: int, shape: LayerShape, types: Types, limits: Limits) -> Iterator[Point]:
    if level >= len(_FEW_TOKENS):
        return
    for tokens in _upto(_FEW_TOKENS, level, limits.max_num_batched_tokens):
        for part, width in shape.elementwise_widths.items():
            yield Point("elementwise", part, tokens=tokens, out_features=width)
        for kv_dtype in types.kv_dtypes:
            width = 2 * shape.num_kv_heads * shape.head_dim
            yield Point("elementwise", "kv_write", kv_cache_dtype=kv_dtype, tokens=tokens, out_features=width)


def _head_and_sampling(level: int, shape: LayerShape, types: Types, limits: Limits) -> Iterator[Point]:
    hidden, vocabulary = shape.hidden_size, shape.vocab_size
    for sequences in _upto(_SEQUENCES, level, limits.max_num_seqs):
        yield Point("head", weight_dtype=types.dtype, sequences=sequences, out_features=vocabulary, in_features=hidden)
        yield Point("sampling", "random", sequences=sequences, out_features=vocabulary)
        if level > 0:
            yield Point("sampling", "greedy", sequences=sequences, out_features=vocabulary)


def _layers(level: int, types: Types, limits: Limits) -> Iterable[Point]:
    if level == 0:
        return [
            Point(
                "peak_memory",
                weight_dtype=types.dtype,
                tokens=limits.max_num_batched_tokens,
                sequences=limits.max_num_seqs,
            )
        ]
    if level > 1:
        return []
    layer = Point("layer", weight_dtype=types.dtype, kv_cache_dtype=types.dtype)
    prefills = [
        replace(layer, part="prefill", tokens=tokens, sequences=1, new_tokens=tokens, past_tokens=0)
        for tokens in (512, 2048)
        if tokens <= limits.max_num_batched_tokens
    ]
    decodes = [
        replace(layer, part="decode", tokens=batch, sequences=batch, past_tokens=1024)
        for batch in (1, 32)
        if batch <= limits.max_num_seqs
    ]
    return prefills + decodes
