"""KV blocks and their prefix cache: content.py names what full blocks hold, block_pool.py says who has them.

Blocks move in runs: extent.py. Models whose layers keep different things have single blocks instead: group_pool.py has
them, group_blocks.py, window_blocks.py and state_blocks.py say what each kind of group does with them, group_cache.py
puts the kinds together. Pure: no requests, clock or files.
"""

from sim.kv.block_pool import BlockPool
from sim.kv.content import Content, ContentTree
from sim.kv.extent import Table

__all__ = ["BlockPool", "Content", "ContentTree", "Table"]
