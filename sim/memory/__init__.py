"""From a GPU, a model and engine flags to KV blocks, as vLLM counts them at start-up.

`memory_ledger` gives blocks, concurrency and refusals with the range and origin of each part;
`sessions_that_fit` is the division people make by hand.
"""

from sim.memory.kv_layout import KvLayout, kv_layout
from sim.memory.ledger import MemoryLedger, largest_max_model_len, memory_ledger
from sim.memory.reserves import ByteRange
from sim.memory.session_arithmetic import SessionArithmetic, sessions_that_fit
from sim.memory.settings import BatchLimits, MemorySettings

__all__ = [
    "BatchLimits",
    "ByteRange",
    "KvLayout",
    "MemoryLedger",
    "MemorySettings",
    "SessionArithmetic",
    "kv_layout",
    "largest_max_model_len",
    "memory_ledger",
    "sessions_that_fit",
]
