"""What speculative decoding adds: the draft's layers, their KV and their weights.

A draft that proposes tokens with layers of its own keeps KV like the model: MTP heads the checkpoint's layers, EAGLE
heads one, a whole draft model all of its own. Look-ups (ngram, suffix) keep nothing.
"""

from sim.catalog import Model, load_model
from sim.catalog.layers import LayerKv, RecurrentState
from sim.errors import MemoryLedgerError, one_of
from sim.memory.settings import MemorySettings

_HEADS = (
    "mtp",
    "eagle",
    "eagle3",
    "deepseek_mtp",
    "qwen3_next_mtp",
    "qwen3_5_mtp",
    "glm4_moe_mtp",
    "ernie_mtp",
    "mimo_mtp",
    "longcat_flash_mtp",
    "pangu_ultra_moe_mtp",
    "nextn",
    "dflash",
    "gemma4_mtp",
    "step3p5_mtp",
    "exaone_moe_mtp",
    "nemotron_h_mtp",
)
_SHARING = ("mtp", "gemma4_mtp")
_MODELS = ("draft_model", "standalone")
_WITHOUT_KV = ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "extract_hidden_states")


def draft_layers(model: Model, settings: MemorySettings) -> tuple[LayerKv, ...]:
    """Return what each layer of the draft keeps; none without speculative decoding.

    A head's layer is like the model's attention layers that keep every token. Raises MemoryLedgerError for an unknown
    method and CatalogError for an unknown draft model.
    """
    method = _method(settings)
    if method is None or method in _WITHOUT_KV:
        return ()
    if method in _MODELS:
        if settings.draft_model is None:
            raise MemoryLedgerError(f"speculative method {method} needs a draft model")
        return load_model(settings.draft_model).kv_layers
    if method in _SHARING and model.name.lower().startswith("gemma-4"):
        return ()  # its assistant attends to the model's own KV: with 4 draft tokens 49 GiB sufficed (issue 49878)
    if model.mtp and method.endswith(("mtp", "nextn")):
        return tuple(layer.kv for layer in model.mtp)  # all are loaded, however many tokens they draft
    return (model.mtp_kv or _attention_like(model),)


def draft_weight_bytes(model: Model, settings: MemorySettings) -> int:
    """Return the bytes of the draft's weights on one GPU of the last stage.

    A head is counted as one of the model's own layers, which MTP heads are; a draft model as its checkpoint.
    """
    method = _method(settings)
    if method is None or method in _WITHOUT_KV:
        return 0
    if method in _MODELS and settings.draft_model is not None:
        return load_model(settings.draft_model).weight_bytes("auto", settings.tensor_parallel_size)
    dtype, parallel = settings.weight_dtype, settings.tensor_parallel_size
    if model.mtp:
        return model.draft_weight_bytes(dtype, parallel)
    last, count = range(model.num_hidden_layers - 1, model.num_hidden_layers), model.num_hidden_layers
    two = model.weight_bytes(dtype, parallel, layers=range(max(0, count - 2), count))
    return max(0, two - model.weight_bytes(dtype, parallel, layers=last))


def _method(settings: MemorySettings) -> str | None:
    method = settings.speculative_method
    if method is None:
        if settings.num_speculative_tokens is None:
            return None
        return "draft_model" if settings.draft_model else "mtp"
    known = (*_HEADS, *_MODELS, *_WITHOUT_KV)
    if method.lower() not in known:
        raise MemoryLedgerError(f"speculative method {one_of(method, known)}")
    return method.lower()


def _attention_like(model: Model) -> LayerKv:
    """Return what an attention layer of the model keeps that is neither a window nor a state."""
    for layer in reversed(model.kv_layers):
        if layer and not any(
            isinstance(kind, RecurrentState)
            or getattr(kind, "window_tokens", None)
            or getattr(kind, "chunk_tokens", None)
            for kind in layer
        ):
            return layer
    return next((layer for layer in reversed(model.kv_layers) if layer), ())
