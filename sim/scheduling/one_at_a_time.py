"""One request at a time, as a local model on a laptop serves: the next begins when the last token is out.

The KV cache is kept while a request runs and, where prefix caching is on, found by the next one that begins alike.
"""

from dataclasses import replace

from sim.kv.block_pool import BlockPool
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.continuous import ContinuousScheduler


class OneAtATime(ContinuousScheduler):
    """Continuous batching with a single slot is just that."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(replace(config, max_num_seqs=1), pool)
