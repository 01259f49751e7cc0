"""When an engine answers 503 instead of taking a request: too many wait already, or the KV cache is too full.

vLLM V1 takes everything and lets it wait; a limit on waiting requests is what other servers and gateways have.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionLimit:
    """Either limit may be open."""

    max_num_queued_reqs: int | None = None
    reject_above_kv_usage: float | None = None

    def is_reached(self, waiting: int, kv_usage: float) -> bool:
        """Whether a request that comes now is rejected."""
        queued, usage = self.max_num_queued_reqs, self.reject_above_kv_usage
        return (queued is not None and waiting >= queued) or (usage is not None and kv_usage > usage)
