"""Chunked prefill with a step budget and a chunk size of its own, as Sarathi-Serve has it.

A step holds a token of every decode first, then chunks of prompts of at most `prefill_chunk_tokens` each, in order,
until `max_num_batched_tokens` are spent. vLLM V1 has no such chunk by default: a prompt takes the budget that is left.
"""

from sim.scheduling.batch import Batch
from sim.scheduling.request import Request
from sim.scheduling.running_list import place_of
from sim.scheduling.walked import WalkedScheduler


class ChunkedPrefill(WalkedScheduler):
    """Decodes have their share before any prompt is cut to what is left."""

    def _prefill_cap(self) -> int:
        return self.config.prefill_chunk_tokens

    def _schedule_tail(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> int:
        self._tail.sort(key=_is_prefill)  # stable: in order of admission on either side
        left = super()._schedule_tail(batch, tokens, cap, budget)
        self._tail.sort(key=place_of)
        return left


def _is_prefill(request: Request) -> bool:
    return request.known_tokens + request.in_flight_outputs - request.computed_tokens > 1
