"""Requests that decode, taken together: each gets one token a step, so sums stand for all of them.

What a step costs and when it must stop follows from four things: how many rows, how many KV tokens they read, who
needs a block at which step (a request crosses into a new block every `block_size` steps), and who samples its last
token first. None of them needs a look at every row. A request's own numbers are brought up to date when it leaves.
"""

from heapq import heappop, heappush
from itertools import accumulate

from sim.scheduling.request import Request


class DecodeGroup:
    """Rows that advance in lockstep; steps are counted by the scheduler."""

    def __init__(self, block_size: int) -> None:
        self.rows = 0
        self.kv_tokens = 0  # the rows attend to in the next step, their new tokens included
        self.members: dict[int, Request] = {}  # by number, in the order of the running list
        self.needing: list[list[int]] = [[] for _ in range(block_size)]  # step modulo block size -> who needs a block
        self._ends: list[tuple[int, int, Request]] = []  # heap of last steps; left behind where somebody left early

    def join(self, request: Request, step: int) -> None:
        """Add a request after `step`; it comes after all others in the running list."""
        request.in_group = True
        request.settled_step = request.settled_output = step
        self.rows += 1
        self.kv_tokens += request.computed_tokens + 1
        self.members[request.number] = request
        self._phase(step, request.computed_tokens).append(request.number)
        self.ends_at(request, step + request.output_tokens - request.generated_tokens - request.in_flight_outputs)

    def ends_at(self, request: Request, step: int) -> None:
        """Note the step that samples a request's last token."""
        request.last_step = step
        heappush(self._ends, (step, request.place, request))

    def leave(self, request: Request, step: int) -> None:
        """Take a request out that was settled up to `step`."""
        request.in_group = False
        self.rows -= 1
        self.kv_tokens -= request.computed_tokens + 1
        del self.members[request.number]
        self._phase(step, request.computed_tokens).remove(request.number)

    def next_end(self) -> int:
        """Return the first step that samples a last token; the group is not empty."""
        ends = self._ends
        while True:
            step, place, request = ends[0]
            if request.in_group and request.last_step == step and request.place == place:
                return step
            heappop(ends)

    def ending(self, step: int) -> list[Request]:
        """Return who samples its last token at `step`, in the order of the running list."""
        ends = self._ends
        found: list[Request] = []
        while ends and ends[0][0] <= step:
            end, place, request = heappop(ends)
            if request.in_group and request.last_step == end and request.place == place and request not in found:
                found.append(request)
        return found

    def turns(self, step: int, steps: int) -> list[list[int]]:
        """Return who needs a block at each of the steps after `step`."""
        size = len(self.needing)
        first = (step + 1) % size
        if first + steps <= size:
            return self.needing[first : first + steps]
        turns = self.needing[first:] + self.needing * (steps // size) + self.needing[:first]
        del turns[steps:]
        return turns

    def steps_with(self, blocks: int, step: int, steps: int) -> int:
        """Return how many steps after `step`, at most `steps`, need no more than so many blocks."""
        needed = accumulate(map(len, self.turns(step, steps)))
        return next((taken for taken, count in enumerate(needed) if count > blocks), steps)

    def _phase(self, step: int, computed: int) -> list[int]:
        """Return the list of those who need a block at the same steps: when all they hold is full."""
        return self.needing[(step + 1 - computed) % len(self.needing)]
