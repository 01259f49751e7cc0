"""Times steps of the small transformer, each laid out once over blocks that lie anywhere in the pools."""

from collections.abc import Callable
from time import perf_counter

import torch

from calibrate.timing.dtypes import PLAIN_BYTES
from calibrate.timing.machine import Machine, free_bytes
from calibrate.timing.samplers import captured, event_s
from calibrate.timing.small_transformer import SmallTransformer, StepInputs
from calibrate.timing.small_transformer_batch import StepBatch
from sim.catalog import Model
from sim.errors import CalibrationError
from sim.units import GIB

_FREE_SHARE = 0.8


def new_transformer(model: Model, machine: Machine, dtype: str, *, blocks: int, block_size: int) -> SmallTransformer:
    """Return the transformer; raises CalibrationError where memory does not hold its weights and KV blocks."""
    kv_tokens = blocks * block_size * model.num_hidden_layers
    needed = PLAIN_BYTES[dtype] * (model.total_params + kv_tokens * 2 * model.num_key_value_heads * model.head_dim)
    free = free_bytes(machine)
    if needed > _FREE_SHARE * free:
        raise CalibrationError(
            f"the small transformer needs {needed / GIB:.1f} GiB of memory, {free / GIB:.1f} GiB are free"
        )
    return SmallTransformer(model, machine, dtype, blocks=blocks, block_size=block_size)


def lay_out(transformer: SmallTransformer, batch: StepBatch, seed: int) -> StepInputs:
    """Return the inputs of a step with random tokens, its blocks drawn from anywhere in the pools."""
    generator = torch.Generator().manual_seed(seed)
    counts = batch.blocks(transformer.block_size)
    anywhere = torch.randperm(transformer.blocks, generator=generator)[: sum(counts)]
    token_ids = torch.randint(0, transformer.shape.vocab_size, (batch.tokens,), generator=generator)
    return transformer.prepare(batch, token_ids, torch.split(anywhere, counts))


def step_timer(transformer: SmallTransformer, inputs: StepInputs) -> Callable[[], float]:
    """Return a function that runs the step once and returns its seconds, after a first run that is not timed.

    On a GPU the step is replayed from a CUDA graph, as its operations are and as engines run theirs.
    """
    transformer.step(inputs)
    if transformer.machine.kind == "cuda":
        graph = captured(lambda: transformer.step(inputs))
        return lambda: event_s(graph.replay)

    def once() -> float:
        started = perf_counter()
        transformer.step(inputs)
        return perf_counter() - started

    return once
