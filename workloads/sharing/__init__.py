"""What prompts share: an unlimited cache, LRU and the optimum over sizes, and how long content must be kept.

known_blocks.py, prefix_tree.py, unlimited.py   hits of a cache that forgets nothing, for either shape of content
block_paths.py                                  a trace as paths of numbered blocks, in the order of their times
lru.py, optimum.py, kept.py                     the curves over cache size and over time
"""
