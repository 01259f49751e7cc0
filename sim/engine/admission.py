"""When an engine answers 503 instead of taking a request: too many are in it already, or the KV cache is too full.

`max_num_queued_reqs` is vLLM's: its API server counts requests in flight, waiting and running together. The limit on KV
usage is what gateways have that read vLLM's metrics.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionLimit:
    """Either limit may be open."""

    max_num_queued_reqs: int | None = None
    reject_above_kv_usage: float | None = None

    def is_reached(self, in_flight: int, kv_usage: float) -> bool:
        """Whether a request that comes now is rejected."""
        most, usage = self.max_num_queued_reqs, self.reject_above_kv_usage
        return (most is not None and in_flight >= most) or (usage is not None and kv_usage > usage)
