"""Priority with quotas: the lowest priority value first, but never more running of a class than its quota.

A class without a quota has none to heed. Who is over quota is passed over, so that one tenant cannot fill the batch and
a strict order cannot starve everybody else while slots of theirs are free.
"""

from collections import Counter

from sim.scheduling.batch import Batch
from sim.scheduling.request import Request
from sim.scheduling.walked import WalkedScheduler


class PriorityQuota(WalkedScheduler):
    """`config.priority_quotas` says how many of a class may run."""

    def _schedule_waiting(self, batch: Batch, tokens: dict[Request, int], cap: int, budget: int) -> None:
        quotas = dict(self.config.priority_quotas)
        running = Counter(request.priority for request in self.running)
        passed_over: list[Request] = []
        while self.waiting and budget > 0:
            request = self.waiting[0]
            if running[request.priority] >= quotas.get(request.priority, self.config.max_num_seqs):
                passed_over.append(self.waiting.pop(0))
                continue
            count = self._admit_head(batch, tokens, cap, budget)
            if not count:
                break
            running[request.priority] += 1
            budget -= count
        self.waiting[:0] = passed_over
