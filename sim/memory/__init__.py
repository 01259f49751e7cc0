"""From GPUs, a model and engine flags to KV blocks, as vLLM counts them at start-up.

`memory_ledger` gives blocks, concurrency and refusals with the range and origin of each part; `kv_layout` the groups of
layers behind them; `sglang_pools` is the same for SGLang; `sessions_that_fit` is the division people make by hand.
"""

from sim.memory.kv_groups import Keeps, KvGroup
from sim.memory.kv_layout import KvLayout, kv_layout
from sim.memory.ledger import MemoryLedger, memory_ledger
from sim.memory.rank import RankMemory
from sim.memory.reserves import ByteRange
from sim.memory.session_arithmetic import SessionArithmetic, sessions_that_fit
from sim.memory.settings import BatchLimits, MemorySettings
from sim.memory.sglang import SglangPools, SglangSettings, sglang_pools

__all__ = [
    "BatchLimits",
    "ByteRange",
    "Keeps",
    "KvGroup",
    "KvLayout",
    "MemoryLedger",
    "MemorySettings",
    "RankMemory",
    "SessionArithmetic",
    "SglangPools",
    "SglangSettings",
    "kv_layout",
    "memory_ledger",
    "sessions_that_fit",
    "sglang_pools",
]
