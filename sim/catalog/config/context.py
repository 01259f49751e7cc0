"""The longest context a config allows, derived as vLLM derives max_model_len."""

from collections.abc import Iterator

from sim.catalog.config.keys import MOST, Keys

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
)
_UNSCALED = {"su", "longrope", "llama3", "default", "mrope", "proportional"}  # these name the length they reach


def max_positions(keys: Keys) -> int:
    """Return max_position_embeddings, stretched by rope scaling where that is not already in it.

    yarn stretches original_max_position_embeddings. Raises CatalogError when no length is there.
    """
    length = keys.count(*_LENGTHS)
    for rope in ropes(keys):
        kind = rope.text("rope_type") or rope.text("type") or "default"
        factor = rope.number("factor")
        if kind in _UNSCALED or factor is None or str(keys.text("model_type")).startswith("gemma3"):
            continue
        base = rope.count_or_none("original_max_position_embeddings") if kind == "yarn" else None
        stretched = (base or length) * factor
        if not 1 <= stretched <= MOST:
            raise rope.broken("factor", f"{factor:g} makes a context of {stretched:.3g} tokens")
        return int(stretched)
    return length


def ropes(keys: Keys) -> Iterator[Keys]:
    """Yield the settings of rotary positions: one for all layers, or one for each kind of layer."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = keys.part(key)
        if rope is None:
            continue
        nested = [name for name in ("full_attention", "sliding_attention") if name in rope]
        if not nested:
            yield rope
        for name in nested:
            part = rope.part(name)
            if part is not None:
                yield part
