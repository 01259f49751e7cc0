"""What to change so that SGLang starts, and holds one request of the context length: each tried before it is named."""

import math
from collections.abc import Iterator
from dataclasses import replace

from sim.catalog import Gpu, Model
from sim.errors import MemoryLedgerError
from sim.memory.remedies import Remedy, kv_types, more_gpus, weight_types
from sim.memory.settings import MemorySettings
from sim.memory.sglang import SglangPools, SglangSettings, sglang_pools

_MOST_STATIC_PERCENT = 95


def sglang_remedies_of(gpu: Gpu, model: Model, settings: MemorySettings, own: SglangSettings) -> tuple[Remedy, ...]:
    """Return the single changes that help, the cheapest first; none where one request of the context length fits.

    SGLang starts with less and turns longer requests away, so both count as trouble. Raises MemoryLedgerError as
    the pools do for the settings as given.
    """
    pools = sglang_pools(gpu, model, settings, own)
    return () if _holds_one(pools) else tuple(_remedies(gpu, model, settings, own, pools))


def _remedies(
    gpu: Gpu, model: Model, settings: MemorySettings, own: SglangSettings, pools: SglangPools
) -> Iterator[Remedy]:
    def then(changed: MemorySettings) -> SglangPools | None:
        try:
            return sglang_pools(gpu, model, changed, own)
        except MemoryLedgerError:
            return None

    def helps(changed: MemorySettings) -> bool:
        after = then(changed)
        return after is not None and _holds_one(after)

    for percent in range(math.floor(100 * pools.mem_fraction_static) + 1, _MOST_STATIC_PERCENT + 1):
        after = sglang_pools(gpu, model, settings, replace(own, mem_fraction_static=percent / 100))
        if _holds_one(after):
            flag = f"--mem-fraction-static {percent / 100:.2f}"
            yield Remedy(flag, "less room for activations", settings, after.max_concurrency, after.context_length)
            break
    if pools.kv_cache_tokens.likely:
        longest = pools.kv_cache_tokens.likely
        shorter = replace(settings, max_model_len=longest)
        yield Remedy(f"--context-length {longest}", "shorter requests", shorter, 1.0, longest)
    for change in (
        *kv_types(gpu, model, settings, fp8="fp8_e4m3"),
        *weight_types(gpu, model, settings),
        *more_gpus(settings, helps, "--tp-size"),
    ):
        changed = then(change.settings)
        if changed is not None and _holds_one(changed):
            yield Remedy(change.flag, change.costs, change.settings, changed.max_concurrency, changed.context_length)


def _holds_one(pools: SglangPools) -> bool:
    return pools.refusal is None and pools.max_concurrency >= 1
