"""What LoRA adapters take on a GPU: room for `max_loras` of the largest rank, whether they are loaded or not."""

from sim.catalog import Model
from sim.memory.settings import MemorySettings

_BITS16_BYTES = 2


def adapter_bytes(model: Model, settings: MemorySettings, layers: range) -> int:
    """Return the bytes of two thin 16-bit matrices beside each dense matrix of the layers, for each adapter.

    An input of the hidden size or an output of it is taken of every matrix; experts have no adapters. From the shapes,
    not checked against a print.
    """
    if not settings.enable_lora:
        return 0
    hidden = model.hidden_size
    width = sum(
        hidden + linear.params / hidden / settings.tensor_parallel_size  # one of the two is whole on every rank
        for layer in model.layers[layers.start : layers.stop]
        for linear in layer.linears
        if linear.copies == 1 and not linear.always_16bit
    )
    slots = settings.max_loras * settings.max_lora_rank
    return round(slots * width * _BITS16_BYTES)
