"""Facts about GPUs and models, each with its source.

`load_gpu` and `load_model` find an entry by name or alias; a Hugging Face config.json works as a model too.
What is unknown is an error with the nearest valid name, never a default.
"""

from sim.catalog.dtypes import (
    KV_DTYPES,
    KV_FAMILIES,
    LINEAR_WEIGHT_BYTES,
    KvDtype,
    activation_bytes,
    kv_dtype,
    linear_weight_bytes,
)
from sim.catalog.gpu import Gpu, gpu_names, load_gpu
from sim.catalog.load import catalogued_model, load_model, model_names, with_overrides
from sim.catalog.model import Model

__all__ = [
    "KV_DTYPES",
    "KV_FAMILIES",
    "LINEAR_WEIGHT_BYTES",
    "Gpu",
    "KvDtype",
    "Model",
    "activation_bytes",
    "catalogued_model",
    "gpu_names",
    "kv_dtype",
    "linear_weight_bytes",
    "load_gpu",
    "load_model",
    "model_names",
    "with_overrides",
]
