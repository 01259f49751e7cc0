"""KV blocks and their prefix cache: content.py names what full blocks hold, block_pool.py says who has them.

Blocks move in runs: extent.py. Pure: no requests, clock or files.
"""

from sim.kv.block_pool import BlockPool
from sim.kv.content import Content, ContentTree
from sim.kv.extent import Table

__all__ = ["BlockPool", "Content", "ContentTree", "Table"]
