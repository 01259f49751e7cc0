"""Ledgers that several tests show: what is shown is theirs, not the numbers."""

from io import StringIO

from rich.console import Console, RenderableType

from sim.catalog import load_gpu, load_model
from sim.memory import MemoryLedger, MemorySettings, SglangPools, SglangSettings, memory_ledger, sglang_pools


def ledger(gpu: str, model: str, **settings: object) -> MemoryLedger:
    """Account for a vLLM deployment."""
    return memory_ledger(load_gpu(gpu), load_model(model), MemorySettings(**settings))  # type: ignore[arg-type]


def uniform(**settings: object) -> MemoryLedger:
    """Return 5,000 blocks of a model whose layers all keep every token."""
    return ledger("L4", "Qwen3-4B", **({"num_gpu_blocks_override": 5_000, "max_model_len": 10_000} | settings))


def refused() -> MemoryLedger:
    """Return a model that is larger than the GPU."""
    return ledger("T4", "Qwen3-8B", max_model_len=32_768)


def stages() -> MemoryLedger:
    """Return a pipeline of unequal stages."""
    return ledger("L4", "Qwen3-14B", pipeline_parallel_size=2, pipeline_layers=(24, 16), max_model_len=8_192)


def pools() -> SglangPools:
    """Return SGLang with states."""
    return sglang_pools(load_gpu("H200"), load_model("Qwen3.5-27B"), MemorySettings(), SglangSettings())


def shown(renderable: RenderableType, width: int = 80, encoding: str = "utf-8") -> str:
    """Return what a console of that width and encoding prints, without colour."""

    class Encoded(StringIO):
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return encoding

    file = Encoded()
    Console(file=file, width=width, markup=False, highlight=False).print(renderable)
    return file.getvalue()
