"""What the engine writes into its log, quoted as the version prints it, so that it can be found there.

Of a refusal only as much as there are numbers for; dots stand for the rest of the engine's sentence.
"""

from collections.abc import Iterator

from sim.memory import MemoryLedger, SglangPools
from sim.memory.verdict import Trouble, Verdict
from sim.memory.versions import is_v0, prints_concurrency_tokens
from sim.units import GIB

_FAR = 0.05  # share by which a printed token count misleads


def printed_start(ledger: MemoryLedger) -> Iterator[str]:
    """Yield vLLM's lines on the KV cache, then what its token count means where it is not what fits."""
    version, printed, fits = ledger.settings.vllm_version, ledger.kv_cache_tokens, ledger.capacity_tokens
    if is_v0(version):
        yield f'"# GPU blocks: {ledger.num_gpu_blocks}"'
    else:
        yield f'"GPU KV cache size: {printed:,} tokens"'
    longest = ledger.limits.max_model_len
    yield f'"Maximum concurrency for {longest:,} tokens per request: {ledger.max_concurrency:.2f}x"'
    if not is_v0(version) and abs(printed - fits) > _FAR * fits:
        yield f"{printed:,} is blocks // groups x block size; what fits is {fits:,} tokens"
    elif not ledger.layout.is_uniform and prints_concurrency_tokens(version):
        yield f"the tokens are concurrency x max_model_len: they hold for requests of {longest:,} only"


def printed_refusal(ledger: MemoryLedger, verdict: Verdict) -> str:
    """Return what stands in vLLM's log when it gives up; empty where it starts."""
    match verdict.trouble:
        case None:
            return ""
        case Trouble.NOT_FREE:
            free = ledger.settings.free_bytes_at_start or 0
            ranks = [rank for rank in ledger.ranks if free < rank.budget_bytes]
            sizes = f"{_gib(free)}/{_gib(ranks[0].total_visible_bytes)} GiB"
            asked = f"{ledger.settings.utilization:g}, {_gib(ranks[0].budget_bytes)} GiB"
            short = f"is less than desired GPU memory utilization ({asked})"
            return f'"Free memory on device ... ({sizes}) on startup {short} ..."'
        case Trouble.WEIGHTS:
            return '"torch.OutOfMemoryError: CUDA out of memory ..." while it loads the weights'
        case Trouble.NO_KV:
            return '"No available memory for the cache blocks ..."'
        case Trouble.SHORT_KV:
            return _short(ledger, verdict)


def printed_sglang_refusal(pools: SglangPools) -> str:
    """Return what stands in SGLang's log when no token fits; empty where it starts."""
    return "" if pools.refusal is None else '"Not enough memory. Please try to increase --mem-fraction-static ..."'


def _short(ledger: MemoryLedger, verdict: Verdict) -> str:
    longest, asked = ledger.largest_max_model_len, ledger.limits.max_model_len
    if is_v0(ledger.settings.vllm_version):
        return (
            f'"... max seq len ({asked}) is larger than the maximum number of tokens that can be stored in KV cache '
            f'({ledger.num_gpu_blocks * ledger.layout.block_size}) ..."'
        )
    estimate = f" ... the estimated maximum model length is {longest}" if longest else ""
    return (
        f'"... max seq len ({asked}), ({_gib(verdict.needed_bytes)} GiB KV cache is needed, which is larger than the '
        f'available KV cache memory ({_gib(verdict.kv_bytes.likely)} GiB){estimate} ..."'
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"
