"""No KV cache: every token is bought with a pass over everything before it, one request at a time.

A prompt of P tokens and an answer of N take N passes, over P, P + 1, ... P + N - 1 rows: N P + N (N - 1) / 2 in all,
where P + N - 1 would do with a cache (founding document 003). Nothing is kept, so no memory is held and none found.
"""

from dataclasses import replace

from sim.kv.block_pool import BlockPool
from sim.scheduling.batch import Admission, Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.request import Request, Status
from sim.scheduling.walked import WalkedScheduler


def rows_recomputed(prompt_tokens: int, output_tokens: int) -> int:
    """Return how many rows all passes of a request compute."""
    return output_tokens * prompt_tokens + output_tokens * (output_tokens - 1) // 2


class NoKvCache(WalkedScheduler):
    """Each step computes the one running request from its first token on."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(replace(config, max_num_seqs=1), pool)

    def can_ever_fit(self, prompt_tokens: int, output_tokens: int) -> bool:  # noqa: ARG002
        """Whether max_model_len allows it: memory and step budgets bind nobody."""
        return prompt_tokens < self.config.max_model_len

    def _schedule_tail(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:  # noqa: ARG002
        for request in self._tail:
            if not (self.config.async_scheduling and self._has_last_token_in_flight(request)):
                request.computed_tokens = 0
                tokens[request] = request.known_tokens + request.in_flight_outputs
        return budget

    def _admissible(self, request: Request, cap: int, budget: int) -> tuple[int, int]:  # noqa: ARG002
        return request.known_tokens, 0

    def _enter(self, request: Request, count: int, hit: int) -> Admission:  # noqa: ARG002
        return Admission(request, 0, request.status is Status.PREEMPTED, 0, -1)

    def _register(self, request: Request, tokens_with_kv: int) -> None:
        """Enter nothing: what a pass computed is gone when it ends."""
