"""Layers that an architecture search pruned one by one (Llama-Nemotron): `block_configs` gives each its own shape."""

from functools import cache

from sim.catalog.config.keys import Keys
from sim.catalog.layers import AttentionKv
from sim.catalog.weights import Layer, Linear, dense_mlp, grouped_attention

_WIDTH_MULTIPLE = 256


def pruned_layers(keys: Keys, hidden_size: int, layers: int) -> tuple[Layer, ...]:
    """Return the layers of `block_configs`; one without attention keeps no KV."""
    heads = keys.count("num_attention_heads")
    if hidden_size % heads:
        raise keys.broken("hidden_size", f"{hidden_size} must be a multiple of num_attention_heads {heads}")
    build = cache(_layer)
    return tuple(
        build(keys.where, hidden_size, heads, *_shape(Keys(keys.where, block, f"block_configs[{number}]."), hidden_size))
        for number, block in enumerate(keys.per_layer("block_configs", dict, layers))
    )


def _shape(block: Keys, hidden_size: int) -> tuple[int, int, int]:
    """Return query heads a KV head (0: no attention), width (0: none), and whether attention is one matrix."""
    attention, feed_forward = block.part("attention"), block.part("ffn")
    if attention is None or feed_forward is None:
        raise block.broken("attention" if attention is None else "ffn", "is missing")
    matrix = attention.flag("replace_with_linear")
    group = 0 if matrix or attention.flag("no_op") else attention.count("n_heads_in_group")
    return group, _width(feed_forward, hidden_size), int(matrix)


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


def _layer(where: str, hidden_size: int, heads: int, group: int, width: int, matrix: int) -> Layer:
    dim = hidden_size // heads
    block = dense_mlp(hidden_size, width) if width else ()
    if not group:
        alone = (Linear("self_attn.linear_attn", hidden_size**2),) if matrix else ()
        return Layer((), (*alone, *block))
    if heads % group:
        raise Keys(where, {}).broken("block_configs", f"n_heads_in_group {group} must divide num_attention_heads {heads}")
    kv_heads = heads // group
    attention = grouped_attention(hidden_size, heads, kv_heads, dim, dim)
    return Layer((AttentionKv(kv_heads, dim, dim),), (*attention, *block), 4 * heads * dim)
