"""The engine's memory settings, under vLLM's own flag names, and what they default to on a GPU."""

from dataclasses import dataclass, fields

from sim.catalog import Gpu, Model
from sim.errors import MemoryLedgerError
from sim.units import GIB

NEWEST_KNOWN_VLLM = "0.32.0"

# Upper bounds are only there to catch a slip of the keyboard before it becomes a table of nonsense.
_MOST = {
    "max_model_len": 10**8,
    "max_num_batched_tokens": 10**8,
    "max_num_seqs": 10**6,
    "block_size": 2**16,
    "tensor_parallel_size": 1024,
    "num_gpu_blocks_override": 10**9,
    "kv_cache_tokens": 10**12,
    "kv_cache_memory_bytes": 10**14,
    "non_kv_bytes": 10**14,
    "free_bytes_at_start": 10**14,
}
_KV_OVERRIDES = ("kv_cache_tokens", "num_gpu_blocks_override", "kv_cache_memory_bytes", "non_kv_bytes")


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What decides how much memory is left for KV. None means the engine's default, or not given.

    Of the four ways to tell the ledger what an engine printed (`kv_cache_tokens`, `num_gpu_blocks_override`,
    `kv_cache_memory_bytes`, `non_kv_bytes`: budget minus KV) at most one may be set. Bytes are per GPU.
    Raises MemoryLedgerError for a value that cannot be.
    """

    gpu_memory_utilization: float = 0.92
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int = 16
    kv_cache_dtype: str = "auto"
    weight_dtype: str = "auto"
    tensor_parallel_size: int = 1
    enforce_eager: bool = False
    vllm_version: str = NEWEST_KNOWN_VLLM
    kv_cache_tokens: int | None = None
    num_gpu_blocks_override: int | None = None
    kv_cache_memory_bytes: int | None = None
    non_kv_bytes: int | None = None
    free_bytes_at_start: int | None = None

    def __post_init__(self) -> None:
        share = self.gpu_memory_utilization
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise MemoryLedgerError(f"gpu_memory_utilization {share!r} must be above 0 and at most 1")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _MOST and not (value is None and field.default is None):
                _check_whole(field.name, value, _MOST[field.name])
        given = self._kv_overrides()
        if len(given) > 1:
            raise MemoryLedgerError(f"{' and '.join(given)} each fix the KV memory; give one of them")

    @property
    def kv_override(self) -> str | None:
        """The setting that fixes the KV memory, when one does."""
        given = self._kv_overrides()
        return given[0] if given else None

    def _kv_overrides(self) -> list[str]:
        return [name for name in _KV_OVERRIDES if getattr(self, name) is not None]


def _check_whole(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise MemoryLedgerError(f"{name} {value!r} must be a whole number from 1 to {most:,}")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The engine's limits once defaults are filled in."""

    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int


def batch_limits(gpu: Gpu, model: Model, settings: MemorySettings) -> BatchLimits:
    """Fill in what the settings leave open, as vLLM 0.32's API server does.

    Source: VLLM_FACTS; 16,384 tokens and 1,024 sequences from 160 GiB, 8,192 and 1,024 from 70 GiB except on
    A100, else 2,048 and 256; max_model_len is the model's own maximum.
    """
    if gpu.usable_bytes >= 160 * GIB:
        tokens, sequences = 16_384, 1_024
    elif gpu.usable_bytes >= 70 * GIB and not gpu.name.startswith("A100"):
        tokens, sequences = 8_192, 1_024
    else:
        tokens, sequences = 2_048, 256
    return BatchLimits(
        max_model_len=settings.max_model_len or model.max_position_embeddings,
        max_num_batched_tokens=settings.max_num_batched_tokens or tokens,
        max_num_seqs=settings.max_num_seqs or sequences,
    )
