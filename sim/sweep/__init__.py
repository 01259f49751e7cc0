"""Many simulations: one task each, run here, in worker processes or on a cluster, kept on disk as they finish.

task.py is one simulation; runner.py says what runs a list of them; local.py, dask_cluster.py and ray_cluster.py do.
store.py keeps what finished, by the key of everything it depends on (key.py); combinations.py makes the settings.
"""
