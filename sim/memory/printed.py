"""What the engine means by the tokens of "GPU KV cache size", which changed.

up to 0.20    blocks // groups x block size: for a model with windows or states far below what fits
from 0.21     concurrency x max_model_len
"""

from sim.memory.kv_layout import KvLayout
from sim.memory.versions import prints_concurrency_tokens


def printed_tokens(layout: KvLayout, blocks: int, max_model_len: int, in_flight_tokens: int, vllm_version: str) -> int:
    """Return the tokens that this version prints for so many blocks."""
    if prints_concurrency_tokens(vllm_version):
        return int(blocks / layout.blocks_for(max_model_len, in_flight_tokens) * max_model_len)
    return blocks // len(layout.groups) * layout.block_size * layout.context_parallel_size


def blocks_of_printed(
    layout: KvLayout, tokens: int, max_model_len: int, in_flight_tokens: int, vllm_version: str
) -> int:
    """Return the blocks for which this version prints so many tokens; of tokens it never prints, no more than that."""
    if prints_concurrency_tokens(vllm_version):  # of a uniform model too: its last block may not be full
        return ((tokens + 1) * layout.blocks_for(max_model_len, in_flight_tokens) - 1) // max_model_len
    return tokens // (layout.block_size * layout.context_parallel_size) * len(layout.groups)
