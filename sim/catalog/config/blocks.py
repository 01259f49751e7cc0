"""Layers that an architecture search pruned one by one (Llama-Nemotron): `block_configs` gives each its own shape."""

from functools import cache
from typing import NamedTuple

from sim.catalog.config.keys import Keys
from sim.catalog.layers import AttentionKv
from sim.catalog.weights import Layer, Linear, dense_mlp, grouped_attention

_WIDTH_MULTIPLE = 256


def pruned_layers(keys: Keys, hidden_size: int, layers: int) -> tuple[Layer, ...]:
    """Return the layers of `block_configs`; one without attention keeps no KV."""
    heads = keys.count("num_attention_heads")
    if hidden_size % heads:
        raise keys.broken("hidden_size", f"{hidden_size} must be a multiple of num_attention_heads {heads}")
    build = cache(lambda shape: _layer(keys, hidden_size, heads, shape))
    blocks = keys.per_layer("block_configs", dict, layers)
    named = (Keys(keys.where, block, f"block_configs[{number}].") for number, block in enumerate(blocks))
    return tuple(build(_shape(block, hidden_size)) for block in named)


class _Shape(NamedTuple):
    """What is left of one layer."""

    group: int  # query heads a KV head; 0: no attention
    width: int  # of the feed-forward block; 0: none
    one_matrix: bool  # in place of attention


def _shape(block: Keys, hidden_size: int) -> _Shape:
    attention, feed_forward = block.part("attention"), block.part("ffn")
    if attention is None or feed_forward is None:
        raise block.broken("attention" if attention is None else "ffn", "is missing")
    one_matrix = attention.flag("replace_with_linear")
    group = 0 if one_matrix or attention.flag("no_op") else attention.count("n_heads_in_group")
    return _Shape(group, _width(feed_forward, hidden_size), one_matrix)


def _width(feed_forward: Keys, hidden_size: int) -> int:
    if feed_forward.flag("no_op"):
        return 0
    if feed_forward.flag("replace_with_linear"):
        return max(1, hidden_size // 3)  # one square matrix
    if "intermediate_size" in feed_forward:
        return feed_forward.count("intermediate_size")
    share = feed_forward.number("ffn_mult")
    if share is None:
        raise feed_forward.broken("ffn_mult", "is missing")
    return -(-int(2 * share * hidden_size / 3) // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE


def _layer(keys: Keys, hidden_size: int, heads: int, shape: _Shape) -> Layer:
    dim = hidden_size // heads
    block = dense_mlp(hidden_size, shape.width) if shape.width else ()
    if not shape.group:
        alone = (Linear("self_attn.linear_attn", hidden_size**2),) if shape.one_matrix else ()
        return Layer((), (*alone, *block))
    if heads % shape.group:
        raise keys.broken(
            "block_configs", f"have n_heads_in_group {shape.group}, which must divide num_attention_heads {heads}"
        )
    kv_heads = heads // shape.group
    attention = grouped_attention(hidden_size, heads, kv_heads, dim, dim)
    return Layer((AttentionKv(kv_heads, dim, dim),), (*attention, *block), 4 * heads * dim)
