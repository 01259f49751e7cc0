"""Which kind each layer is: full attention, a window, a chunk, a recurrence, both at once, or neither.

Configs say it in a dozen ways; the first key below that is there decides, and without any of them every layer
attends to everything.
"""

from collections.abc import Callable
from enum import Enum

from sim.catalog.config.keys import Keys, shown


class LayerKind(Enum):
    """What mixes tokens in a layer."""

    FULL = "full attention"
    WINDOW = "sliding window"
    CHUNK = "chunked local attention"
    RECURRENT = "recurrence"
    BOTH = "attention and recurrence side by side"
    MLP = "a feed-forward block alone"
    EXPERTS = "experts alone"


_NAMES = {
    "full_attention": LayerKind.FULL,
    "attention": LayerKind.FULL,
    "deepseek_sparse_attention": LayerKind.FULL,
    "sliding_attention": LayerKind.WINDOW,
    "chunked_attention": LayerKind.CHUNK,
    "linear_attention": LayerKind.RECURRENT,
    "mamba": LayerKind.RECURRENT,
    "mamba2": LayerKind.RECURRENT,
    "conv": LayerKind.RECURRENT,
    "hybrid": LayerKind.BOTH,
    "mlp": LayerKind.MLP,
    "moe": LayerKind.EXPERTS,
}
_LETTERS = {"M": LayerKind.RECURRENT, "*": LayerKind.FULL, "-": LayerKind.MLP, "E": LayerKind.EXPERTS}
ALONE = frozenset({LayerKind.MLP, LayerKind.EXPERTS})  # Nemotron-H: blocks are layers of their own
Reader = Callable[[Keys, int], list[LayerKind]]


def layer_kinds(keys: Keys, layers: int) -> list[LayerKind]:
    """Return the kind of each layer, in order.

    Raises CatalogError for a list of the wrong length or a kind that is not known.
    """
    for key, reader in _READERS:
        if key in keys:
            kinds = reader(keys, layers)
            break
    else:
        kinds = [LayerKind.FULL] * layers
    if keys.flag("use_sliding_window", default=True) and ("sliding_window" in keys or "sliding_window_size" in keys):
        return kinds
    if LayerKind.WINDOW in kinds and "layer_types" in keys and keys.flag("use_sliding_window", default=True):
        raise keys.broken("layer_types", "names sliding_attention, and there is no sliding_window")
    return [LayerKind.FULL if kind is LayerKind.WINDOW else kind for kind in kinds]


def listed_layers(keys: Keys) -> int | None:
    """Return how many layers the lists of kinds have, where a config counts them no other way."""
    for key in ("layers_block_type", "layer_types"):
        if key in keys:
            return len(keys.items(key, str))
    return len(keys.text("hybrid_override_pattern") or "") or None


def _by_name(key: str) -> Reader:
    def read(keys: Keys, layers: int) -> list[LayerKind]:
        names = keys.per_layer(key, str, layers)
        for name in names:
            if name not in _NAMES:
                raise keys.broken(key, f"holds {shown(name)}, which is not modelled yet; modelled: {', '.join(_NAMES)}")
        return [_NAMES[name] for name in names]

    return read


def _by_letter(keys: Keys, layers: int) -> list[LayerKind]:
    key = "hybrid_override_pattern"
    pattern = keys.text(key) or ""
    unknown = sorted(set(pattern) - _LETTERS.keys())
    if unknown or len(pattern) != layers:
        wrong = f"holds {unknown[0]!r}" if unknown else f"has {len(pattern)} letters for num_hidden_layers {layers}"
        raise keys.broken(key, wrong)
    return [_LETTERS[letter] for letter in pattern]


def _by_number(key: str, kinds: dict[int, LayerKind]) -> Reader:
    def read(keys: Keys, layers: int) -> list[LayerKind]:
        numbers = keys.per_layer(key, int, layers)
        for number in numbers:
            if number not in kinds:
                raise keys.broken(key, f"holds {shown(number)}")
        return [kinds[number] for number in numbers]

    return read


def _by_period(key: str, others: LayerKind) -> Reader:
    """Read `every n-th layer attends to everything`; Jamba and Ling say where in the period."""

    def read(keys: Keys, layers: int) -> list[LayerKind]:
        period = keys.count(key)
        offset = keys.size("attn_layer_offset") if key == "attn_layer_period" else period - 1
        if offset >= period:
            raise keys.broken("attn_layer_offset", f"{offset} must be less than {key} {period}")
        return [LayerKind.FULL if layer % period == offset else others for layer in range(layers)]

    return read


def _window_pattern(keys: Keys, layers: int) -> list[LayerKind]:
    """Read Gemma's `every n-th layer is global`, or EXAONE's `LLLG`."""
    key = next(name for name in ("sliding_window_pattern", "_sliding_window_pattern") if name in keys)
    if not isinstance(keys.values[key], str):
        return _by_period(key, LayerKind.WINDOW)(keys, layers)
    pattern = keys.text(key) or ""
    if not pattern or set(pattern) - {"L", "G"}:
        raise keys.broken(key, f"{shown(pattern)} must be of the letters L and G")
    local = [pattern[layer % len(pattern)] == "L" for layer in range(layers)]
    return [LayerKind.WINDOW if window else LayerKind.FULL for window in local]


def _listed(key: str) -> Reader:
    def read(keys: Keys, layers: int) -> list[LayerKind]:
        attending = set(keys.items(key, int))
        return [LayerKind.FULL if layer in attending else LayerKind.RECURRENT for layer in range(layers)]

    return read


def _kimi(keys: Keys, layers: int) -> list[LayerKind]:
    """Read Kimi-Linear's lists, which count layers from 1."""
    config = keys.part("linear_attn_config")
    assert config is not None
    linear = set(config.items("kda_layers", int))
    return [LayerKind.RECURRENT if layer + 1 in linear else LayerKind.FULL for layer in range(layers)]


def _grouped(keys: Keys, layers: int) -> list[LayerKind]:
    """Read Ling's groups: the last layer of each attends, and so do those after the last whole group."""
    size = keys.count("layer_group_size")
    whole = layers // size * size
    full = [layer >= whole or layer % size == size - 1 for layer in range(layers)]
    return [LayerKind.FULL if attends else LayerKind.RECURRENT for attends in full]


def _chunked(keys: Keys, layers: int) -> list[LayerKind]:
    """Read Llama 4: layers without rotary positions attend to everything, the others within their chunk."""
    flags = keys.items("no_rope_layers", int)
    if flags:
        flags = keys.per_layer("no_rope_layers", int, layers)
    else:
        interval = keys.count_or_none("no_rope_layer_interval") or 4
        flags = [int((layer + 1) % interval != 0) for layer in range(layers)]
    return [LayerKind.CHUNK if rotary else LayerKind.FULL for rotary in flags]


def _windows(keys: Keys, layers: int) -> list[LayerKind]:
    """Read one window for all layers; Qwen2 keeps it from the first layers."""
    full = min(keys.size("max_window_layers"), layers)
    return [LayerKind.FULL] * full + [LayerKind.WINDOW] * (layers - full)


def _all(kind: LayerKind) -> Reader:
    return lambda _keys, layers: [kind] * layers


_READERS: tuple[tuple[str, Reader], ...] = (
    ("layer_types", _by_name("layer_types")),
    ("layers_block_type", _by_name("layers_block_type")),
    ("hybrid_override_pattern", _by_letter),
    ("hybrid_layer_pattern", _by_number("hybrid_layer_pattern", {0: LayerKind.FULL, 1: LayerKind.WINDOW})),
    ("attn_type_list", _by_number("attn_type_list", {0: LayerKind.RECURRENT, 1: LayerKind.FULL})),
    ("linear_attn_config", _kimi),
    ("attn_layer_indices", _listed("attn_layer_indices")),
    ("full_attn_idxs", _listed("full_attn_idxs")),
    ("full_attention_interval", _by_period("full_attention_interval", LayerKind.RECURRENT)),
    ("attn_layer_period", _by_period("attn_layer_period", LayerKind.RECURRENT)),
    ("layer_group_size", _grouped),
    ("parallel_mixers", _all(LayerKind.BOTH)),
    ("attention_chunk_size", _chunked),
    ("sliding_window_pattern", _window_pattern),
    ("_sliding_window_pattern", _window_pattern),
    ("sliding_window", _windows),
    ("conv_kernel", _all(LayerKind.RECURRENT)),
)
