"""What limits how many requests run at once: KV blocks, state slots, or the engine's own cap on sequences.

A printed "maximum concurrency" knows blocks only; an engine that prints 198x and may run 8 sequences runs 8.
"""

from dataclasses import dataclass

from sim.memory.kv_groups import Keeps
from sim.memory.ledger import MemoryLedger
from sim.memory.sglang import SglangPools

KV, STATE_SLOTS, MAX_NUM_SEQS = "KV cache", "state slots", "max_num_seqs"
_SHORT_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit and how many requests it admits at once, on one replica."""

    name: str
    requests: float


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What limits requests of one length."""

    tokens: int  # of one request, prompt and answer
    blocks: int | None  # it holds at most; None where the engine counts tokens
    limits: tuple[Limit, ...]

    @property
    def binding(self) -> Limit:
        """The limit that binds."""
        return min(self.limits, key=lambda limit: limit.requests)


def longest_requests(ledger: MemoryLedger | SglangPools) -> RequestLimits:
    """Return what limits requests that are as long as the engine takes them."""
    if isinstance(ledger, SglangPools):
        return _of_pools(ledger, ledger.context_length)
    return _of_blocks(ledger, ledger.limits.max_model_len)


def short_requests(ledger: MemoryLedger | SglangPools) -> RequestLimits:
    """Return what limits requests of 1,000 tokens: where the fixed costs of a request show, above all states."""
    if isinstance(ledger, SglangPools):
        return _of_pools(ledger, min(_SHORT_TOKENS, ledger.context_length))
    return _of_blocks(ledger, min(_SHORT_TOKENS, ledger.limits.max_model_len))


def replicas_of(ledger: MemoryLedger | SglangPools) -> int:
    """Return how many data-parallel replicas a deployment has, each with a KV cache of its own."""
    return ledger.replicas if isinstance(ledger, SglangPools) else ledger.settings.data_parallel_size


def total_concurrency(ledger: MemoryLedger | SglangPools) -> float:
    """Return the requests of full length that all replicas together hold at once."""
    return replicas_of(ledger) * ledger.max_concurrency


def _of_blocks(ledger: MemoryLedger, tokens: int) -> RequestLimits:
    blocks = ledger.layout.blocks_for(tokens, ledger.in_flight_tokens)
    states = sum(group.state_blocks for group in ledger.layout.groups if group.keeps is Keeps.STATE)
    longest = tokens == ledger.limits.max_model_len
    kv = ledger.num_gpu_blocks / blocks if longest else ledger.usable_blocks // blocks
    name = STATE_SLOTS if 2 * states > blocks else KV
    return RequestLimits(tokens, blocks, (Limit(name, kv), Limit(MAX_NUM_SEQS, ledger.limits.max_num_seqs)))


def _of_pools(pools: SglangPools, tokens: int) -> RequestLimits:
    limits = [Limit(KV, pools.kv_cache_tokens.likely / tokens)]
    if pools.max_running_requests is not None:
        limits.append(Limit(STATE_SLOTS, pools.max_running_requests))
    return RequestLimits(tokens, None, tuple(limits))
