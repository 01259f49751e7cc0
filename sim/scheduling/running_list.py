"""The running list: its head decodes in lockstep and is kept as a group, the others, its tail, stand alone.

Who is in the group and who is not is nobody's decision: it only says how a request is accounted for. A member's own
fields are brought up to date when it leaves, or when somebody asks.
"""

from bisect import insort
from itertools import accumulate, chain

from sim.kv.block_pool import BlockPool
from sim.kv.content import Content
from sim.kv.extent import Table
from sim.scheduling.batch import Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.decode_group import DecodeGroup
from sim.scheduling.request import Request


def place_of(request: Request) -> int:
    """Return what the running list is ordered by."""
    return request.place


class RunningList:
    """Requests that run, with their blocks; steps are counted here."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        self.config = config
        self.pool = pool
        self.running: list[Request] = []  # in order of admission
        self.group = DecodeGroup(config.block_size)
        self.step = 0  # the last batch that was scheduled
        self.processed = 0  # the last batch that came back
        self._tail: list[Request] = []  # running, not in the group
        self._in_flight: list[Batch] = []
        self._regrouped_step = -1

    def settle(self, request: Request) -> None:
        """Bring a request's own fields up to date."""
        if request.in_group:
            self._settle(request)

    def settle_all(self) -> None:
        """Bring all group members up to date."""
        for request in self.group.members.values():
            self._settle(request)

    def change_output(self, request: Request, output_tokens: int) -> None:
        """Let a running request end earlier."""
        request.output_tokens = output_tokens
        if request.in_group:
            self._settle(request)
            left = output_tokens - request.generated_tokens - request.in_flight_outputs
            self.group.ends_at(request, self.step + left)

    def advance(self, steps: int) -> list[int]:
        """Schedule the group alone that many times; return the blocks in use after each."""
        group, pool = self.group, self.pool
        in_use = pool.usable_blocks - pool.num_free
        turns = group.turns(self.step, steps)
        takers = list(chain.from_iterable(turns))
        group.kv_tokens += steps * group.rows
        self.step += steps
        if not takers:
            return [in_use] * steps
        pool.take_each(takers)
        taken = list(accumulate(map(len, turns), initial=in_use))
        del taken[0]
        return taken

    def pass_over(self, step: int) -> None:
        """Take in the tokens of all batches up to `step`; they hold the group alone, and nobody's last token."""
        self.processed = step
        self._in_flight = [batch for batch in self._in_flight if batch.step > step]

    def fly(self, step: int) -> Batch:
        """Return the batch of a step that `advance` scheduled, to be processed."""
        batch = Batch(step, self.group.rows, self.group.kv_tokens - self.group.rows * (self.step + 1 - step))
        self._in_flight.append(batch)
        return batch

    def shared_kv_tokens(self) -> int:
        """Return the tokens whose blocks are in more tables than one, each counted once for each further table."""
        pool = self.pool
        return max(0, pool.num_held - (pool.usable_blocks - pool.num_free)) * self.config.block_size

    def warm(self, content: Content) -> None:
        """Cache a prefix as an earlier request would have left it, as far as the pool reaches."""
        pool = self.pool
        blocks = min(sum(blocks for _, blocks in content), pool.num_free)
        table = Table()
        pool.take(table, blocks)
        pool.register(table, content, blocks)
        pool.release(table)

    def _regroup(self) -> None:
        """Let those leave whose last token is in flight (rule 28), and those join who have begun to decode."""
        self._regrouped_step = self.step
        if self.config.async_scheduling:
            for request in self.group.ending(self.step):
                self._ungroup(request)
        tail = self._tail
        while tail and self.group.rows < self.config.max_num_batched_tokens and self._may_join(tail[0]):
            request = tail.pop(0)
            self.group.join(request, self.step)
            registered = request.table.registered
            for part, blocks in request.content:
                if registered < blocks:
                    part.writer = request
                registered -= blocks

    def _may_join(self, request: Request) -> bool:
        """Whether a request gets one token a step from now on, into blocks of content that nobody else has."""
        in_flight = request.in_flight_outputs
        if in_flight != self.config.async_scheduling or self.pool.numbered:
            return False
        if request.computed_tokens != request.known_tokens + in_flight - 1:
            return False
        if request.generated_tokens + in_flight >= request.output_tokens:
            return False
        if self.pool.enable_prefix_caching:
            first = request.table.registered
            for part, blocks in request.content:
                if first < blocks and (part.users > 1 or part.cached > max(first, 0)):
                    return False
                first -= blocks
        return True

    def _settle(self, request: Request) -> None:
        """Count what happened to a member in its own fields, and enter its blocks."""
        scheduled = self.step - request.settled_step
        outputs = self.processed - request.settled_output
        request.settled_step = self.step
        request.computed_tokens += scheduled
        request.in_flight_outputs += scheduled
        if outputs > 0:
            request.note_tokens(request.settled_output + 1, self.processed)
            request.settled_output = self.processed
            request.generated_tokens += outputs
            request.in_flight_outputs -= outputs
        self._settle_table(request, request.computed_tokens)

    def _settle_table(self, request: Request, computed: int) -> None:
        """Enter the blocks that a member took and filled by the time it had so many tokens computed."""
        table = request.table
        blocks = self._blocks_for(computed)
        table.loose += blocks - table.blocks
        table.blocks = blocks
        self._register(request, computed - self.config.async_scheduling)  # rule 30: known tokens only

    def _ungroup(self, request: Request) -> None:
        """Take a member out of the group, all its fields up to date; batches that hold a token of it are told."""
        self._settle(request)
        self.group.leave(request, self.step)
        for part, _ in request.content:
            if part.writer is request:
                part.writer = None
        for batch in self._in_flight:
            if batch.step > request.settled_output:
                batch.left.append(request)
                batch.rows -= 1

    def _ungroup_from(self, first: Request) -> None:
        """Move a member and all that come after it to the tail: the group is the head of the running list."""
        for request in [one for one in self.group.members.values() if one.place >= first.place]:
            self._ungroup(request)
            insort(self._tail, request, key=place_of)

    # What hybrid.py does differently.

    def _register(self, request: Request, tokens_with_kv: int) -> None:
        self.pool.register(request.table, request.content, tokens_with_kv // self.config.block_size)

    def _release(self, request: Request) -> None:
        self.pool.release(request.table)

    def _chunk(self, request: Request, start: int, count: int) -> int:  # noqa: ARG002
        """Return how many of a request's next `count` tokens to compute in one step."""
        return count

    def _missing(self, request: Request, tokens: int) -> int:
        """Return how many blocks a running request lacks for so many tokens."""
        return -(-tokens // self.config.block_size) - request.table.blocks

    def _take(self, request: Request, tokens: int, missing: int) -> None:  # noqa: ARG002
        """Give a running request the blocks that it lacks for so many tokens."""
        self.pool.take(request.table, missing, request.number)

    def _most_blocks(self, tokens: int) -> int:
        """Return the most blocks that a request of so many tokens holds at once."""
        return self._blocks_for(tokens)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.config.block_size)
