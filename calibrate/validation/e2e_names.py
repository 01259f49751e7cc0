"""Names as sources write them, to names of the catalog: `Qwen/Qwen3-8B-AWQ`, `RTX 4090 24GB`, `awq int4 (Marlin)`."""

import re

from sim.catalog import KV_DTYPES, LINEAR_WEIGHT_BYTES, Gpu, Model, load_gpu, load_model
from sim.errors import CatalogError, one_of

_QUANTISED = re.compile(r"[- ](FP8|AWQ|GPTQ|INT8|W8A8)(-dynamic)?$", re.IGNORECASE)
_MEMORY = re.compile(r"[- ]\d+ ?GB$")
_DTYPES = (
    (r"awq|gptq|int4", "int4"),
    (r"^fp8", "fp8"),
    (r"^int8", "int8"),
    (r"^(bf16|bfloat16|fp16|float16|16-bit)|16-bit", "bf16"),
)


def catalog_gpu(text: str) -> Gpu:
    """Return the GPU a source means; its memory size and remarks in brackets do not matter.

    Raises CatalogError with the nearest valid name.
    """
    name = _bare(text)
    for candidate in (name, _MEMORY.sub("", name)):
        try:
            return load_gpu(candidate)
        except CatalogError as error:
            last = error
    raise last


def catalog_model(text: str) -> Model:
    """Return the model a source means; organisation and quantisation are no part of its shape.

    Raises CatalogError with the nearest valid name.
    """
    name = _bare(text)
    plain = _QUANTISED.sub("", name)
    last: CatalogError | None = None
    for candidate in (name, plain, plain.rsplit("/", 1)[-1]):
        try:
            return load_model(candidate)
        except CatalogError as error:
            last = error
    assert last is not None
    raise last


def weight_dtype(text: str) -> str:
    """Return the storage type of the linear layers; 16 bits where nothing is said.

    Raises CatalogError for a type that is not known.
    """
    lowered = text.lower()
    if not lowered:
        return "bf16"
    for pattern, name in _DTYPES:
        if re.search(pattern, lowered):
            return name
    raise CatalogError(f"weight dtype {one_of(_bare(text), LINEAR_WEIGHT_BYTES)}")


def kv_cache_dtype(text: str) -> str:
    """Return the storage type of the KV cache, `auto` where nothing is said.

    Raises CatalogError for a type that is not known.
    """
    name = _bare(text) or "auto"
    if name not in KV_DTYPES:
        raise CatalogError(f"KV cache dtype {one_of(name, KV_DTYPES)}")
    return name


def _bare(text: str) -> str:
    return re.sub(r"\s*\(.*$", "", text).strip()
