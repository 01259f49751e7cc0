"""From a model and a KV cache type to bytes: a token's, and a block's.

Models uniform full attention only, where every layer keeps every token and a block is `block_size` tokens of
all layers. Sliding-window, recurrent and latent (MLA) groups share pages by other rules and are not modelled
yet; the catalog refuses such models.
"""

import math
from dataclasses import dataclass

from sim.catalog import Model


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How KV is laid out on one GPU."""

    bytes_per_token: float
    block_size: int  # tokens
    block_bytes: int

    def blocks_in(self, kv_bytes: int) -> int:
        """Return how many whole blocks fit into `kv_bytes`; none when it is negative."""
        return max(0, kv_bytes) // self.block_bytes

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks a request of that many tokens takes."""
        return -(-tokens // self.block_size)


def kv_layout(model: Model, kv_cache_dtype: str, block_size: int, tensor_parallel_size: int = 1) -> KvLayout:
    """Return the layout of a model's KV cache on one GPU.

    Raises MemoryLedgerError for an unknown type, with the nearest name, or for heads that do not divide.
    """
    bytes_per_token = model.kv_bytes_per_token(kv_cache_dtype, tensor_parallel_size)
    return KvLayout(
        bytes_per_token=bytes_per_token,
        block_size=block_size,
        block_bytes=math.ceil(round(bytes_per_token * block_size, 6)),
    )
