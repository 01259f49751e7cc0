"""Weights of a vision or audio encoder, by the layers its config describes; they stay in 16 bits."""

from sim.catalog.config.keys import Keys

_LAYERS = ("depth", "num_hidden_layers", "vt_num_hidden_layers", "layers", "num_layers", "conf_num_hidden_layers")
_HIDDEN = ("embed_dim", "hidden_size", "vt_hidden_size", "width")
_WIDTH = ("intermediate_size", "vt_intermediate_size", "mlp_dim")


def encoder_params(keys: Keys, hidden_size: int) -> int:
    """Return the weights of the encoders a config names: attention, feed-forward, patches and the projector.

    Right to about a tenth: what lies between encoder and text differs by family.
    """
    return sum(_tower(keys.part(key), hidden_size) for key in ("vision_config", "audio_config"))


def _tower(config: Keys | None, text_hidden: int) -> int:
    layers = None if config is None else config.count_or_none(*_LAYERS)
    hidden = None if config is None else config.count_or_none(*_HIDDEN)
    if config is None or layers is None or hidden is None:
        return 0
    if "embed_dim" in config and "hidden_size" in config:  # Qwen2-VL: hidden_size is the text's
        text_hidden = config.count("hidden_size")
    width = config.count_or_none(*_WIDTH) or round(hidden * (config.number("mlp_ratio") or 4.0))
    gated = config.text("hidden_act") == "silu" or "use_clipped_linears" in config
    body = layers * (4 * hidden**2 + (3 if gated else 2) * hidden * width)
    patch = config.count_or_none("patch_size") or 14
    frames = config.count_or_none("temporal_patch_size") or 1
    patches = 3 * frames * patch**2 * hidden
    merged = hidden * (config.count_or_none("spatial_merge_size") or 1) ** 2
    out = config.count_or_none("out_hidden_size") or text_hidden
    merger = merged * merged + merged * out if "spatial_merge_size" in config else hidden * out
    mergers = 1 + len(config.items("deepstack_visual_indexes", int))
    return body + patches + merger * mergers
