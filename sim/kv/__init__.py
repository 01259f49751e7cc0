"""KV blocks and their prefix cache: content.py names what a full block holds, block_pool.py says who has it.

Pure: no requests, clock or files.
"""

from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree

__all__ = ["BlockPool", "ContentTree"]
