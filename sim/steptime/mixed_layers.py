"""Models whose layers differ, priced by a profile of uniform ones.

A step-time profile knows one kind of layer: attention over all tokens, then an MLP. Where a model mixes kinds, what it
does more or less than so many such layers goes in as ratios and constants:

    linear        by the weights a token meets (a shared expert, a state's projections, dense layers among experts)
    attention     over all tokens by the FLOPs of the layers that do it, and by the bytes they keep
    windows       a constant a row: the window's bytes are read whatever the context (a shorter one reads less)
    states        a constant a row: read and written at each step

Not measured: an estimate, and said to be one. For a uniform model every ratio is exactly 1 and every constant 0.
"""

from dataclasses import dataclass

from sim.catalog import Model, kv_dtype
from sim.catalog.kv_bytes import state_bytes, token_bytes
from sim.catalog.layers import AttentionKv, IndexerKv, KvKind, LatentKv, RecurrentState
from sim.catalog.model import uniform_layer

_READ_AND_WRITTEN = 2


@dataclass(frozen=True, slots=True)
class MixedLayers:
    """What a model does beside `num_hidden_layers` layers of its main kind."""

    linear: float = 1.0  # times the weights a token meets
    pairs: float = 1.0  # times the FLOPs of a (query, key) pair over all tokens
    kv_tokens: float = 1.0  # times the bytes of a token that decoding reads
    bytes_per_row: float = 0.0  # more bytes a row reads, of windows and states, on one GPU
    window_pairs: float = 0.0  # that a new token forms in windows, over all layers that have one
    growing_layers: int = 1  # attend to all tokens


UNIFORM = MixedLayers()


def mixed_layers(model: Model, kv_cache_dtype: str, tensor_parallel_size: int = 1) -> MixedLayers:
    """Return what sets a model apart from uniform layers."""
    if not model.body:
        return UNIFORM
    dtype = kv_dtype(kv_cache_dtype)
    heads = AttentionKv(model.num_key_value_heads, model.head_dim, model.head_dim)
    main, of_one = uniform_layer(model), token_bytes(heads, dtype, tensor_parallel_size)
    growing = bounded = 0.0
    window_pairs = 0.0
    for layer in model.layers:
        for kind in layer.kv:
            match kind:
                case AttentionKv(window_tokens=None, chunk_tokens=None) | LatentKv() | IndexerKv():
                    growing += token_bytes(kind, dtype, tensor_parallel_size)
                case AttentionKv():
                    span = kind.window_tokens or kind.chunk_tokens or 0
                    bounded += span * token_bytes(kind, dtype, tensor_parallel_size)
                    window_pairs += span
                case RecurrentState():
                    bounded += _READ_AND_WRITTEN * state_bytes(kind, tensor_parallel_size, 0, "auto")
    layers = model.num_hidden_layers
    return MixedLayers(
        linear=model.active_linear_params / (layers * main.active_params),
        pairs=model.attention_flops_per_pair / (layers * main.pair_flops) if growing else 0.0,
        kv_tokens=growing / (layers * of_one),
        bytes_per_row=bounded,
        window_pairs=window_pairs,
        growing_layers=max(1, sum(any(map(_grows, layer.kv)) for layer in model.layers)),
    )


def _grows(kind: KvKind) -> bool:
    return not isinstance(kind, RecurrentState) and not (
        isinstance(kind, AttentionKv) and (kind.window_tokens or kind.chunk_tokens)
    )
