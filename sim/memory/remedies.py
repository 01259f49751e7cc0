"""What to change so that an engine starts that would refuse: each remedy is tried in the ledger before it is named.

Cheapest first: what costs nothing but headroom, then throughput, then context, then precision, then GPUs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sim.catalog import Gpu, Model, kv_dtype
from sim.catalog.layers import AttentionKv
from sim.catalog.weight_scheme import weight_scheme
from sim.errors import MemoryLedgerError
from sim.memory.ledger import MemoryLedger, memory_ledger
from sim.memory.settings import MemorySettings

_MOST_UTILIZATION_PERCENT = 97  # beyond, the driver and the graphs have no room
_LEAST_BATCHED_TOKENS, _LEAST_SEQS = 512, 8
_MOST_TIMES_TP = 8
_FP8_FROM, _NVFP4_KV_FROM = 8.0, 10.0  # compute capability: Ampere stores fp8 without computing in it; Blackwell

Gpus = Gpu | Sequence[Gpu]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change with which the engine starts."""

    flag: str  # as typed: --max-model-len 13520
    costs: str  # what one pays for it
    settings: MemorySettings  # with the change
    max_concurrency: float  # requests of max_model_len at once, then, of one replica
    max_model_len: int  # then


class Change(NamedTuple):
    """A change to try."""

    flag: str
    costs: str
    settings: MemorySettings


def remedies_of(gpu: Gpus, model: Model, settings: MemorySettings) -> tuple[Remedy, ...]:
    """Return the single changes with which a refused vLLM starts, the cheapest first; none where it starts.

    Raises MemoryLedgerError as the ledger does for the settings as given.
    """
    ledger = memory_ledger(gpu, model, settings)
    return () if ledger.starts else tuple(_verified(gpu, model, _changes(gpu, model, ledger)))


def _verified(gpu: Gpus, model: Model, changes: Iterator[Change]) -> Iterator[Remedy]:
    for change in changes:
        then = _try(gpu, model, change.settings)
        if then is not None and then.starts:
            yield Remedy(change.flag, change.costs, change.settings, then.max_concurrency, then.limits.max_model_len)


def _try(gpu: Gpus, model: Model, settings: MemorySettings) -> MemoryLedger | None:
    """Return the ledger, or None for settings that cannot be: heads that do not divide, a type without such layers."""
    try:
        return memory_ledger(gpu, model, settings)
    except MemoryLedgerError:
        return None


def _changes(gpu: Gpus, model: Model, ledger: MemoryLedger) -> Iterator[Change]:
    """Yield what may help. KV memory that is given as blocks or tokens leaves nothing to change but lengths."""
    settings, limits = ledger.settings, ledger.limits
    weakest = gpu if isinstance(gpu, Gpu) else min(gpu, key=_capability)

    def starts(changed: MemorySettings) -> bool:
        then = _try(gpu, model, changed)
        return then is not None and then.starts

    fixed_blocks = settings.kv_override in {"kv_cache_tokens", "num_gpu_blocks_override"}
    if settings.kv_override in {None, "non_kv_bytes"} or settings.free_bytes_at_start is not None:
        yield from _utilization(ledger, starts)
    if settings.kv_override is None:
        for name, flag, now, least, costs in (
            (
                "max_num_batched_tokens",
                "--max-num-batched-tokens",
                limits.max_num_batched_tokens,
                max(_LEAST_BATCHED_TOKENS, limits.max_num_seqs),
                "slower prefill",
            ),
            ("max_num_seqs", "--max-num-seqs", limits.max_num_seqs, _LEAST_SEQS, "fewer sequences at once"),
        ):
            for count in _powers_of_two_below(now, least):
                changed = replace(settings, **{name: count})  # type: ignore[arg-type]  # each is a whole number
                if starts(changed):
                    yield Change(f"{flag} {count}", costs, changed)
                    break
    if ledger.largest_max_model_len:
        longest = ledger.largest_max_model_len
        yield Change(f"--max-model-len {longest}", "shorter requests", replace(settings, max_model_len=longest))
    if not fixed_blocks:
        yield from kv_types(weakest, model, settings)
    if settings.kv_override is None:
        yield from weight_types(weakest, model, settings)
        yield from more_gpus(settings, starts, "--tensor-parallel-size")


def _utilization(ledger: MemoryLedger, starts: Callable[[MemorySettings], bool]) -> Iterator[Change]:
    """Yield the smallest share of two decimals that starts or, where too little is free, the largest that is free."""
    settings = ledger.settings
    free = settings.free_bytes_at_start
    if free is not None and free < max(rank.budget_bytes for rank in ledger.ranks):
        most = math.floor(100 * free / max(rank.total_visible_bytes for rank in ledger.ranks))
        percents = range(most, max(0, most - 2), -1)
    else:
        percents = range(math.floor(100 * settings.utilization) + 1, _MOST_UTILIZATION_PERCENT + 1)
    for percent in percents:
        changed = replace(settings, gpu_memory_utilization=percent / 100)
        if starts(changed):
            yield Change(f"--gpu-memory-utilization {percent / 100:.2f}", "less room for others", changed)
            return


def kv_types(gpu: Gpu, model: Model, settings: MemorySettings, fp8: str = "fp8") -> Iterator[Change]:
    """Yield a smaller KV type that the GPU has: fp8 for 16 bits, nvfp4 for 8."""
    bits = kv_dtype(settings.kv_type(model)).key_bits
    heads_only = all(isinstance(kind, AttentionKv) for layer in model.kv_layers for kind in layer)
    if bits > 8 and _capability(gpu) >= _FP8_FROM:
        yield Change(f"--kv-cache-dtype {fp8}", "KV in 8 bits", replace(settings, kv_cache_dtype=fp8))
    if bits == 8 and heads_only and _capability(gpu) >= _NVFP4_KV_FROM:
        yield Change("--kv-cache-dtype nvfp4", "KV in 4 bits", replace(settings, kv_cache_dtype="nvfp4"))


def weight_types(gpu: Gpu, model: Model, settings: MemorySettings) -> Iterator[Change]:
    """Yield smaller weights: fp8, which the engine makes of 16 bits itself, then a checkpoint in 4 bits."""
    own = model.scheme if settings.weight_dtype == "auto" and model.scheme is not None else None
    now = own or weight_scheme(model.weight_dtype if settings.weight_dtype == "auto" else settings.weight_dtype)
    if now.bits >= 16 and _capability(gpu) >= _FP8_FROM:
        yield Change("--quantization fp8", "weights in 8 bits", replace(settings, weight_dtype="fp8"))
    if now.bits >= 8:
        changed = replace(settings, weight_dtype="awq")
        yield Change("a 4-bit checkpoint (AWQ, GPTQ)", "weights in 4 bits", changed)


def more_gpus(settings: MemorySettings, starts: Callable[[MemorySettings], bool], flag: str) -> Iterator[Change]:
    """Yield the fewest GPUs, by doubling, that start."""
    times = 2
    while times <= _MOST_TIMES_TP:
        size = settings.tensor_parallel_size * times
        changed = replace(settings, tensor_parallel_size=size)
        if starts(changed):
            yield Change(f"{flag} {size}", f"{times} times the GPUs", changed)
            return
        times *= 2


def _powers_of_two_below(now: int, least: int) -> Iterator[int]:
    count = 1 << (now - 1).bit_length() - 1 if now > 1 else 0
    while count >= least:
        yield count
        count //= 2


def _capability(gpu: Gpu) -> float:
    """Return the compute capability as a number; of AMD's, which have fp8 from MI300 on, that of Hopper."""
    try:
        return float(gpu.compute_capability)
    except ValueError:
        return 9.0 if gpu.fp8_flops is not None else 0.0
