"""A limit on running sequences that follows KV usage: nobody new begins while those who run still need room to grow.

From `from_kv_usage` on the limit falls in a straight line from max_num_seqs to `least` when the pool is full. Nobody is
preempted for it. One more than already run is always let in where fewer than `least` do.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """Where the limit begins to fall, and how far."""

    from_kv_usage: float
    least: int = 1

    def at(self, kv_usage: float, max_num_seqs: int) -> int:
        """Return how many may run."""
        if kv_usage <= self.from_kv_usage or self.least >= max_num_seqs:
            return max_num_seqs
        left = (1.0 - kv_usage) / (1.0 - self.from_kv_usage)
        return self.least + round(left * (max_num_seqs - self.least))
