"""Attention with keys and values by head: how many heads of which size in a layer of each kind."""

from dataclasses import dataclass

from sim.catalog.config.keys import Keys
from sim.catalog.config.layer_kinds import LayerKind
from sim.catalog.layers import AttentionKv, LayerKv
from sim.catalog.weights import WHOLE, Layer, Linear, grouped_attention


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of one layer."""

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    value_is_key: bool = False  # no value projection of its own; both are cached all the same


def main_heads(keys: Keys) -> Heads:
    """Return the heads of the layers that attend to everything.

    Raises CatalogError for heads that are missing or do not divide.
    """
    heads = keys.count("num_attention_heads", "n_head", "n_heads")
    kv_heads = _kv_heads(keys, heads)
    dim = keys.count_or_none("head_dim", "attention_head_dim", "kv_channels")
    if dim is None:
        if keys.flag("qk_norm") and keys.text("model_type") in {"qwen3", "qwen3_moe"}:
            raise keys.broken("head_dim", "is missing, and a Qwen3 does not derive it from hidden_size")
        hidden = keys.count("hidden_size", "n_embd", "d_model")
        if hidden % heads:
            raise keys.broken("head_dim", f"is missing and hidden_size {hidden} / {heads} heads is not whole")
        dim = hidden // heads
    global_dim = keys.count_or_none("global_head_dim")
    if global_dim is None:
        return _checked(keys, Heads(heads, kv_heads, dim, keys.count_or_none("v_head_dim") or dim))
    shared = keys.flag("attention_k_eq_v")
    full_kv_heads = keys.count_or_none("num_global_key_value_heads") if shared else None
    return _checked(keys, Heads(heads, full_kv_heads or kv_heads, global_dim, global_dim, value_is_key=shared))


def window_heads(keys: Keys, main: Heads) -> Heads:
    """Return the heads of window layers, which Gemma 4 and MiMo V2 give a shape of their own."""
    if "swa_num_key_value_heads" in keys:
        heads = keys.count_or_none("swa_num_attention_heads") or main.heads
        dim = keys.count_or_none("swa_head_dim") or main.key_dim
        kv_heads, value_dim = keys.count("swa_num_key_value_heads"), keys.count_or_none("swa_v_head_dim")
        return _checked(keys, Heads(heads, kv_heads, dim, value_dim or dim))
    if "global_head_dim" in keys:
        dim = keys.count("head_dim")
        return _checked(keys, Heads(main.heads, _kv_heads(keys, main.heads), dim, dim))
    return main


def attention_layer(keys: Keys, kind: LayerKind, heads: Heads, hidden_size: int, *, shares_kv: bool) -> Layer:
    """Return a layer of attention alone, its feed-forward block left out."""
    window = keys.count("sliding_window", "sliding_window_size") if kind is LayerKind.WINDOW else None
    chunk = keys.count("attention_chunk_size") if kind is LayerKind.CHUNK else None
    kept = AttentionKv(heads.kv_heads, heads.key_dim, heads.value_dim, window, chunk)
    kv: LayerKv = () if shares_kv else (kept,)
    linears: tuple[Linear, ...] = grouped_attention(
        hidden_size,
        heads.heads,
        heads.kv_heads,
        heads.key_dim,
        heads.value_dim,
        gated=keys.flag("attn_output_gate"),
        value_is_key=heads.value_is_key,
    )
    shared = keys.size("share_q_dim")
    if shared:  # Step 3 brings the query down to one small vector for all heads, and up again
        down = Linear("self_attn.q_proj", hidden_size * shared, ways=WHOLE)
        linears = (down, Linear("self_attn.wq", shared * heads.heads * heads.key_dim), *linears[1:])
    return Layer(kv, linears, 2 * heads.heads * (heads.key_dim + heads.value_dim))


def _kv_heads(keys: Keys, heads: int) -> int:
    if keys.flag("multi_query"):
        return 1
    found = keys.count_or_none("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups")
    if found is None and str(keys.text("model_type")).startswith(("qwen3", "mixtral")):
        raise keys.broken("num_key_value_heads", "is missing")
    return found or heads


def _checked(keys: Keys, heads: Heads) -> Heads:
    if heads.heads % heads.kv_heads:
        raise keys.broken(
            "num_attention_heads", f"{heads.heads} must be a multiple of num_key_value_heads {heads.kv_heads}"
        )
    return heads
