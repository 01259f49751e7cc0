"""Times the operations of one model on this machine's GPU or CPU. The only package that imports torch.

Reading order: points.py (what can be timed) and grid.py (which of it, coarse to fine); session.py (one run) and
measure.py (its loop); machine.py, samplers.py and stopwatch.py (on what, and how one point is timed); cases.py and the
*_cases.py files (the operations); paged_cache.py and paged_attention_*.py (decode attention); row_file.py (the file
that survives an interrupt). Without torch: points, grid, layer_shape, dtypes, work, light, pace, stopwatch, outcome,
row_file, summary, session.
"""
