"""Splits the GPUs' memory as vLLM does at start-up, down to the number of KV blocks.

    visible memory x gpu_memory_utilization = budget
    budget - weights - activation peak - non-torch (- CUDA graphs, by version) = KV memory
    KV memory // bytes of a block = blocks; the GPU with the fewest decides

Prefill workspaces and encoder caches are not counted; where an engine's own print is at hand, give it
(`kv_cache_tokens` and its like, or its start-up log) instead of trusting the estimate. README has the errors against
posted start-ups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sim.catalog import Gpu, Model
from sim.errors import MemoryLedgerError
from sim.memory.kv_layout import KvLayout
from sim.memory.printed import printed_tokens
from sim.memory.rank import RankMemory, rank_memory
from sim.memory.refusal import refusal_of
from sim.memory.reserves import ByteRange
from sim.memory.settings import AUTO_FIT, BatchLimits, Measured, MemorySettings, batch_limits
from sim.memory.versions import keeps_a_block


@dataclass(frozen=True, slots=True)
class MemoryLedger:
    """Where the memory goes, and what that means for requests. Sizes are of one GPU: the one with the fewest blocks."""

    model: str
    settings: MemorySettings
    limits: BatchLimits
    ranks: tuple[RankMemory, ...]  # a pipeline's stages in order
    cuda_graphs_reduce_kv: bool
    refusal: str | None
    provenance: Mapping[str, str]  # component -> config, catalog, computed, fitted, estimated or given

    @property
    def rank(self) -> RankMemory:
        """The GPU that decides."""
        return min(self.ranks, key=lambda rank: rank.blocks.likely)

    @property
    def gpu(self) -> str:
        """The GPU's name."""
        return self.rank.gpu

    @property
    def layout(self) -> KvLayout:
        """How KV is laid out on it."""
        return self.rank.layout

    @property
    def starts(self) -> bool:
        """Whether an engine with these settings starts."""
        return self.refusal is None

    @property
    def kv_bytes(self) -> int:
        """Memory for KV; negative when the rest does not fit."""
        return self.rank.kv_bytes.likely

    @property
    def bytes_per_token(self) -> float:
        """KV bytes that one more token of a long context takes."""
        return self.layout.bytes_per_token

    @property
    def num_gpu_blocks(self) -> int:
        """Blocks with the one the engine keeps, as it prints."""
        return self.rank.blocks.likely

    @property
    def num_gpu_blocks_range(self) -> ByteRange:
        """Blocks at the low, likely and high end of the KV memory."""
        return self.rank.blocks

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can have: block 0 is never handed out."""
        return max(0, self.num_gpu_blocks - 1)

    @property
    def in_flight_tokens(self) -> int:
        """Tokens a window reserves for beside its own."""
        return self.settings.in_flight_tokens(self.limits.max_num_batched_tokens)

    @property
    def blocks_per_request(self) -> int:
        """Blocks that a request of max_model_len tokens holds at most."""
        return self.layout.blocks_for(self.limits.max_model_len, self.in_flight_tokens)

    @property
    def max_concurrency(self) -> float:
        """Requests of max_model_len tokens that fit at once, as vLLM prints; no admission limit. Of one replica."""
        return self.num_gpu_blocks / self.blocks_per_request

    @property
    def kv_cache_tokens(self) -> int:
        """What this version prints as "GPU KV cache size"."""
        return printed_tokens(
            self.layout,
            self.num_gpu_blocks,
            self.limits.max_model_len,
            self.in_flight_tokens,
            self.settings.vllm_version,
        )

    @property
    def capacity_tokens(self) -> int:
        """Tokens of context that fit, whatever is printed: of requests of max_model_len where kinds are mixed."""
        if self.layout.is_uniform:
            return self.num_gpu_blocks * self.layout.block_size * self.layout.context_parallel_size
        return int(self.max_concurrency * self.limits.max_model_len)

    @property
    def largest_max_model_len(self) -> int:
        """The largest max_model_len this KV memory starts with; 0 when there is none."""
        return _longest(self.ranks, self.settings, self.limits)

    @property
    def widest_term(self) -> str:
        """The part of the budget that is known least."""
        rank = self.rank
        charged = rank.cuda_graph_bytes if self.cuda_graphs_reduce_kv else ByteRange(0, 0, 0)
        spans = {
            "weights": rank.weight_range,
            "activation peak": rank.activation_bytes,
            "memory outside torch": rank.non_torch_bytes,
            "CUDA graphs": charged,
        }
        return max(spans, key=lambda name: spans[name].high - spans[name].low)


def memory_ledger(gpu: Gpu | Sequence[Gpu], model: Model, settings: MemorySettings) -> MemoryLedger:
    """Account for the memory of one GPU of each pipeline stage.

    `gpu` is one for all, or one for each stage. What the engine would refuse is a `refusal` in the result. Raises
    MemoryLedgerError for settings that name nothing (an unknown type) or claim more KV memory than the GPU has.
    """
    stages = settings.stages(model.num_hidden_layers)
    gpus = [gpu] * len(stages) if isinstance(gpu, Gpu) else list(gpu)
    if len(gpus) != len(stages):
        raise MemoryLedgerError(
            f"{len(gpus)} kinds of GPU for {len(stages)} pipeline stages: give one, or one for each"
        )
    smallest = min(gpus, key=lambda one: one.usable_bytes)
    fits = settings.max_model_len == AUTO_FIT
    asked = replace(settings, max_model_len=None) if fits else settings
    limits = batch_limits(smallest, model, asked)
    ranks = tuple(rank_memory(one, model, asked, limits, layers) for one, layers in zip(gpus, stages, strict=True))
    if fits:
        limits = replace(limits, max_model_len=max(1, min(limits.max_model_len, _longest(ranks, asked, limits))))
    return MemoryLedger(
        model=model.name,
        settings=asked,
        limits=limits,
        ranks=ranks,
        cuda_graphs_reduce_kv=settings.charges_cuda_graphs,
        refusal=refusal_of(ranks, asked, limits, _longest(ranks, asked, limits)),
        provenance=_provenance(smallest, model, asked),
    )


def _longest(ranks: Sequence[RankMemory], settings: MemorySettings, limits: BatchLimits) -> int:
    kept = 1 if keeps_a_block(settings.vllm_version) else 0
    in_flight = settings.in_flight_tokens(limits.max_num_batched_tokens)
    return min(rank.checked_layout.longest(rank.checked_blocks(kept), in_flight) for rank in ranks)


def _provenance(gpu: Gpu, model: Model, settings: MemorySettings) -> dict[str, str]:
    measured = settings.measured or Measured()
    log = {
        name: "log"
        for name in ("weight_bytes", "activation_bytes", "non_torch_bytes", "cuda_graph_bytes")
        if getattr(measured, name) is not None
    }
    if settings.measured is not None:
        log |= {"kv_bytes": "log"}
    return {
        "total_visible_bytes": "estimated" if gpu.visible_bytes is None else gpu.visible_from,
        "budget_bytes": "config",
        "weight_bytes": "index" if settings.weight_dtype == "auto" and model.checkpoint_bytes else "computed",
        "activation_bytes": "fitted",
        "non_torch_bytes": "estimated",
        "cuda_graph_bytes": "config" if settings.enforce_eager else "estimated",
        "bytes_per_token": model.shape_from,
        "kv_bytes": "fitted" if settings.kv_override is None else "given",
    } | log
