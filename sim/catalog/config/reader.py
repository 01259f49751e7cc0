"""Reads the keys of a Hugging Face config into the fields of a Model.

A model that sees or hears wraps the text model's config in its own. An unknown model_type is read by its keys when
none of them hints at memory that its family would have to explain; else it is refused with that key.
"""

from collections.abc import Mapping
from typing import Any

from sim.catalog.config.blocks import pruned_layers
from sim.catalog.config.context import max_positions, ropes
from sim.catalog.config.families import FAMILIES, HINT_BEGINNINGS, HINTS, WRAPPED, family_of
from sim.catalog.config.keys import MOST_LAYERS, Keys, shown
from sim.catalog.config.layer_kinds import listed_layers
from sim.catalog.config.layers import LayerReader
from sim.catalog.config.quantization import kv_cache_dtype_of, weight_scheme_of
from sim.catalog.config.vision import encoder_params
from sim.catalog.layers import AttentionKv, LatentKv
from sim.catalog.weights import Layer

_TEXT = ("text_config", "llm_config", "language_config", "thinker_config")
_MOST_WRAPPERS = 3
_OUTER = ("tie_word_embeddings", "quantization_config", "compression_config", "vision_config", "audio_config")


def read_config(where: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Model fields that a config describes; `where` opens each message.

    Raises CatalogError, naming the key, for what is missing, contradictory or not modelled.
    """
    keys = _with_defaults(where, _text_part(where, config))
    layers, hidden = _layer_count(keys), keys.count("hidden_size", "n_embd", "d_model")
    fields = _pruned(keys, hidden, layers) if "block_configs" in keys else _regular(keys, hidden, layers)
    scheme = weight_scheme_of(keys)
    return fields | {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "vocab_size": keys.count("vocab_size"),
        "tie_word_embeddings": keys.flag("tie_word_embeddings"),
        "max_position_embeddings": max_positions(keys),
        "qk_norm": keys.flag("qk_norm"),
        "rotary_dims": _rotary_dims(keys, fields),
        "vision_params": encoder_params(keys, hidden),
        "kv_cache_dtype": kv_cache_dtype_of(keys),
        "scheme": scheme,
        "weight_dtype": "bf16" if scheme is None else scheme.kernel_dtype,
        "source": where,
    }


def _text_part(where: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text model's keys, with those of its wrappers that concern it."""
    found = dict(config)
    for _ in range(_MOST_WRAPPERS):
        name = next((name for name in _TEXT if found.get(name) is not None), None)
        if name is None:
            break
        inner = found[name]
        if not isinstance(inner, Mapping):
            raise Keys(where, found).broken(name, f"{shown(inner)} must be an object")
        found = _unwrapped(found, inner)
    return found


def _unwrapped(wrapper: dict[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    text = {key: value for key, value in inner.items() if value is not None or key not in _OUTER}
    outer = {key: wrapper[key] for key in _OUTER if wrapper.get(key) is not None}
    kind = text.get("model_type") or wrapper.get("model_type")
    preset = WRAPPED.get(kind, {}) if isinstance(kind, str) else {}
    tied = {key: value for key, value in outer.items() if key == "tie_word_embeddings"}  # the wrapper's word counts
    return {**preset, **outer, **text, **tied, "model_type": kind}


def _with_defaults(where: str, config: dict[str, Any]) -> Keys:
    kind = Keys(where, config).text("model_type")
    family = "llama" if kind is None else family_of(kind)
    config = {key: _one_for_all(value) for key, value in config.items()}
    if family is None:
        _refuse_hints(where, config, kind)
        return Keys(where, config)
    if kind is None:
        _refuse_hints(where, config, "llama")
    return Keys(where, {**FAMILIES[family], **config})


def _one_for_all(value: Any) -> Any:
    """Return a size that is written once a layer (Gemma 3n's intermediate_size) as the one it is."""
    is_sizes = isinstance(value, list) and len(value) > 1 and all(type(size) is int and size > 1 for size in value)
    return value[0] if is_sizes and len(set(value)) == 1 else value


def _refuse_hints(where: str, config: dict[str, Any], kind: str | None) -> None:
    for key, value in config.items():
        begun = next((what for begin, what in HINT_BEGINNINGS.items() if str(key).startswith(begin)), None)
        what = HINTS.get(key, begun)
        if what and value not in (None, False, 0, [], {}):
            raise Keys(where, config).broken(key, f"means {what}, not modelled yet for model_type {shown(kind)}")


def _layer_count(keys: Keys) -> int:
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    count = keys.count_or_none(*names) or listed_layers(keys) or keys.count(*names)
    if count > MOST_LAYERS:
        raise keys.broken("num_hidden_layers", f"{count} is more than the {MOST_LAYERS} any model has")
    return count


def _regular(keys: Keys, hidden: int, layers: int) -> dict[str, Any]:
    reader = LayerReader(keys, hidden, layers)
    heads, feed_forward = reader.heads, reader.feed_forward
    count = keys.count("num_attention_heads") if reader.latent else (heads.heads if heads else 1)
    dim = keys.count("qk_nope_head_dim") + keys.size("qk_rope_head_dim") if reader.latent else None
    body = reader.read()
    width = feed_forward.dense_width or feed_forward.expert_width or _widest(keys, hidden)
    fields: dict[str, Any] = {
        "num_attention_heads": count,
        "num_key_value_heads": heads.kv_heads if heads else count,
        "head_dim": dim or (heads.key_dim if heads else keys.count_or_none("head_dim", "mamba_head_dim") or 1),
        "intermediate_size": width,
        "body": body,
        "mtp": reader.draft_layers(),
        "per_layer_embedding_params": _per_layer_embedding(keys, layers),
    }
    if feed_forward.experts:
        fields["num_experts"] = feed_forward.experts
        fields["num_experts_per_tok"] = feed_forward.experts_per_token
        fields["moe_intermediate_size"] = feed_forward.expert_width
    return fields


def _pruned(keys: Keys, hidden: int, layers: int) -> dict[str, Any]:
    heads = keys.count("num_attention_heads")
    body = pruned_layers(keys, hidden, layers)
    widest = max((linear.params // hidden for layer in body for linear in layer.linears), default=hidden)
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": max((kind.kv_heads for kind in _kinds(body)), default=heads),
        "head_dim": hidden // heads,
        "intermediate_size": widest,
        "body": body,
    }


def _kinds(body: tuple[Layer, ...]) -> list[Any]:
    return [kind for layer in body for kind in layer.kv]


def _widest(keys: Keys, hidden: int) -> int:
    """Return the inner size of a model that has nothing but recurrent layers."""
    return hidden * (keys.count_or_none("expand", "mamba_expand") or 1)


def _rotary_dims(keys: Keys, fields: dict[str, Any]) -> tuple[int, ...]:
    """Return the sizes of the rotary tables: one for each shape of head that is turned."""
    share = next((rope.number("partial_rotary_factor") for rope in ropes(keys)), None)
    share = share or keys.number("partial_rotary_factor") or 1.0
    kinds = _kinds(fields["body"])
    heads = {round(kind.key_dim * min(share, 1.0)) for kind in kinds if isinstance(kind, AttentionKv)}
    if "global_head_dim" in keys:  # Gemma 4 turns a part of each global head, and its table is as wide as the head
        heads = {kind.key_dim for kind in kinds if isinstance(kind, AttentionKv)}
    return tuple(sorted(heads | {kind.rope_dim for kind in kinds if isinstance(kind, LatentKv)}))


def _per_layer_embedding(keys: Keys, layers: int) -> int:
    """Return the weights of an embedding for each layer and its projection (Gemma 3n, E2B and E4B)."""
    width = keys.size("hidden_size_per_layer_input")
    words = keys.size("vocab_size_per_layer_input", "vocab_size") + keys.size("hidden_size")
    return layers * width * words
