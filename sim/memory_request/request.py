"""A question to the ledger: GPUs, model and settings, looked up and checked."""

from dataclasses import dataclass

from sim.catalog import Gpu, Model
from sim.errors import MemoryLedgerError
from sim.memory import MemoryLedger, MemorySettings, SglangPools, SglangSettings, memory_ledger, sglang_pools

Ledger = MemoryLedger | SglangPools


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """Everything a ledger needs; `sglang` is None for vLLM."""

    gpus: tuple[Gpu, ...]  # one for all, or one for each pipeline stage
    model: Model
    settings: MemorySettings
    sglang: SglangSettings | None = None
    gpu_count: int | None = None  # GPUs of the machine; None: as many as the ranks need
    ignored: tuple[str, ...] = ()  # flags that leave memory as it is
    notes: tuple[str, ...] = ()  # what the user should know of how the question was read

    @property
    def ranks(self) -> int:
        """GPUs that these settings take."""
        settings = self.settings
        replicas = 1 if self.sglang is not None and self.sglang.enable_dp_attention else settings.data_parallel_size
        of_one = settings.tensor_parallel_size * settings.pipeline_parallel_size
        return of_one * settings.prefill_context_parallel_size * replicas


def ledger_of(request: MemoryRequest) -> Ledger:
    """Account for the memory. Raises MemoryLedgerError for settings that cannot be, or more ranks than GPUs."""
    if request.gpu_count is not None and request.ranks > request.gpu_count:
        raise MemoryLedgerError(
            f"tensor x pipeline x data parallel takes {request.ranks} GPUs, more than the {request.gpu_count} of --gpus"
        )
    if request.sglang is not None:
        return sglang_pools(request.gpus[0], request.model, request.settings, request.sglang)
    gpus = request.gpus[0] if len(request.gpus) == 1 else request.gpus
    return memory_ledger(gpus, request.model, request.settings)
