"""A scheduler whose requests are walked one by one: the base of the policies beside vLLM's own.

They keep its queue, its blocks and its way of preempting, and change who gets how many tokens in a step.
"""

from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.request import Request


class WalkedScheduler(ContinuousScheduler):
    """No request joins the decode group, so every step is decided anew."""

    def quiet_steps(self) -> int:
        """None: a policy may change its mind at any step."""
        return 0

    def _may_join(self, request: Request) -> bool:  # noqa: ARG002
        return False
