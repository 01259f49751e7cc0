"""The memory of one GPU, which holds one pipeline stage: what is on it, and what is left for KV."""

import math
from dataclasses import dataclass

from sim.catalog import Gpu, Model
from sim.errors import MemoryLedgerError
from sim.memory.adapters import adapter_bytes
from sim.memory.drafts import draft_weight_bytes
from sim.memory.kv_layout import KvLayout, kv_layout
from sim.memory.printed import blocks_of_printed
from sim.memory.reserves import ByteRange, activation_peak, cuda_graphs, exactly, non_torch
from sim.memory.settings import BatchLimits, MemorySettings
from sim.memory.versions import checks_whole_model
from sim.units import GIB, gib

# Of 38 posted load sizes those of 16-bit models are met within 1 %; quantised ones load up to 5 % more.
_UNQUANTISED = ("bf16", "bfloat16", "fp16", "float16", "fp32")
_PLAIN_SPREAD, _QUANTISED_SPREAD = (0.99, 1.01), (0.97, 1.05)


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Where one GPU's memory goes, in bytes."""

    gpu: str
    layers: range
    total_visible_bytes: int
    budget_bytes: int
    weight_bytes: int
    weight_range: ByteRange
    activation_bytes: ByteRange
    non_torch_bytes: ByteRange
    cuda_graph_bytes: ByteRange
    kv_bytes: ByteRange  # negative where the rest does not fit
    layout: KvLayout
    checked_layout: KvLayout  # what the start-up check holds against this GPU: older versions the whole model
    blocks: ByteRange

    def checked_blocks(self, kept: int) -> int:
        """Return the blocks of the checked layout that fit; the engine keeps so many for itself."""
        own = self.layout is self.checked_layout
        return max(0, (self.blocks.likely if own else self.checked_layout.blocks_in(self.kv_bytes.likely)) - kept)


def rank_memory(gpu: Gpu, model: Model, settings: MemorySettings, limits: BatchLimits, layers: range) -> RankMemory:
    """Account for the GPU that holds these layers.

    Raises MemoryLedgerError for settings that name nothing (an unknown type) or claim more KV memory than the GPU has.
    """
    parallel = settings.tensor_parallel_size
    layout = kv_layout(model, settings, layers)
    total = gpu.usable_bytes
    budget = math.ceil(total * settings.utilization)
    weights = model.rotary_table_bytes + model.weight_bytes(
        settings.weight_dtype,
        parallel,
        layers=layers,
        expert_parallel_size=_expert_parallel_size(settings),
        encoder=not settings.language_model_only,
    )
    weights += adapter_bytes(model, settings, layers)
    last = layers.stop == model.num_hidden_layers
    if last:
        weights += draft_weight_bytes(model, settings)
    weights = max(0, weights - round(settings.cpu_offload_gb * GIB))
    activation = activation_peak(model, limits, settings, samples=last)
    outside = non_torch(parallel * settings.pipeline_parallel_size)
    graphs = cuda_graphs(enforce_eager=settings.enforce_eager)
    spread = _weight_spread(model, settings, weights)
    if (measured := settings.measured) is not None and settings.pipeline_parallel_size == 1:
        spread, activation = _or(measured.weight_bytes, spread), _or(measured.activation_bytes, activation)
        outside, graphs = _or(measured.non_torch_bytes, outside), _or(measured.cuda_graph_bytes, graphs)
        weights = spread.likely
    charged = graphs if settings.charges_cuda_graphs else exactly(0)
    rest = budget - weights
    kv = ByteRange(
        low=budget - spread.high - activation.high - outside.high - charged.high,
        likely=rest - activation.likely - outside.likely - charged.likely,
        high=budget - spread.low - activation.low - outside.low - charged.low,
    )
    blocks = ByteRange(layout.blocks_in(kv.low), layout.blocks_in(kv.likely), layout.blocks_in(kv.high))
    given = _given_blocks(settings, layout, limits)
    if given is not None:
        kv, blocks = exactly(given * layout.block_bytes), exactly(given)
    elif (given_bytes := _given_bytes(settings, budget)) is not None:
        kv, blocks = exactly(given_bytes), exactly(layout.blocks_in(given_bytes))
    if settings.kv_override is not None and kv.likely > total:
        raise MemoryLedgerError(
            f"{settings.kv_override} means {gib(kv.likely)} of KV cache, more than the {gib(total)} of one {gpu.name}"
        )
    return RankMemory(
        gpu=gpu.name,
        layers=layers,
        total_visible_bytes=total,
        budget_bytes=budget,
        weight_bytes=weights,
        weight_range=spread,
        activation_bytes=activation,
        non_torch_bytes=outside,
        cuda_graph_bytes=graphs,
        kv_bytes=kv,
        layout=layout,
        checked_layout=kv_layout(model, settings) if checks_whole_model(settings.vllm_version) else layout,
        blocks=blocks,
    )


def _or(measured_bytes: int | None, estimate: ByteRange) -> ByteRange:
    """Return what was measured, if it was; graphs and the like are free-memory deltas, and may come out negative."""
    return estimate if measured_bytes is None else exactly(max(0, measured_bytes))


def _weight_spread(model: Model, settings: MemorySettings, weights: int) -> ByteRange:
    """Return what the weights lie between; the total size of a checkpoint is exact."""
    if settings.weight_dtype == "auto" and model.checkpoint_bytes is not None:
        return exactly(weights)
    own = model.weight_dtype if settings.weight_dtype == "auto" else settings.weight_dtype
    low, high = _PLAIN_SPREAD if own in _UNQUANTISED else _QUANTISED_SPREAD
    return ByteRange(round(low * weights), weights, round(high * weights))


def _expert_parallel_size(settings: MemorySettings) -> int | None:
    if not settings.enable_expert_parallel:
        return None
    return settings.tensor_parallel_size * settings.data_parallel_size


def _given_blocks(settings: MemorySettings, layout: KvLayout, limits: BatchLimits) -> int | None:
    if settings.num_gpu_blocks_override is not None:
        return settings.num_gpu_blocks_override
    if settings.kv_cache_tokens is None:
        return None
    in_flight = settings.in_flight_tokens(limits.max_num_batched_tokens)
    return blocks_of_printed(layout, settings.kv_cache_tokens, limits.max_model_len, in_flight, settings.vllm_version)


def _given_bytes(settings: MemorySettings, budget_bytes: int) -> int | None:
    if settings.non_kv_bytes is not None:
        return budget_bytes - settings.non_kv_bytes
    return settings.kv_cache_memory_bytes
