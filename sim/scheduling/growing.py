"""Unbroken areas that grow as tokens come, nothing reserved: the engine that dies of memory (founding document 001).

A newcomer gets an area for its prompt. Each further block of tokens lengthens it, in place or by a copy into a larger
hole. Where neither is possible the allocation fails and the process with it: every request it holds, running or
waiting, is lost, and until it has started again nobody is served.
"""

from sim.kv.block_pool import BlockPool
from sim.scheduling.batch import Batch
from sim.scheduling.config import SchedulerConfig
from sim.scheduling.fixed_slots import FixedSlots
from sim.scheduling.pressure import Pressure
from sim.scheduling.request import Request


class Growing(FixedSlots):
    """Fixed slots whose memory nobody has counted."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        super().__init__(config, pool)
        self.pressure = self.counts = Pressure()
        self._out_of_memory = False

    def schedule(self) -> Batch:
        """Decide the next batch; one in which somebody cannot grow is empty, and `lose_everything` is due."""
        if not self._grow():
            batch = Batch(self.step + 1)
            batch.out_of_memory = True
            return batch
        return super().schedule()

    def lose_everything(self) -> None:
        """Let the process die: all its requests go into `dropped`, all memory is free."""
        everybody = [*self.running, *self.waiting]
        for request in self.running:
            self._release(request)
        for request in everybody:
            self._end(request)
        self.running.clear()
        self.waiting.clear()
        self._tail.clear()
        self.dropped += everybody
        self.counts.crashes += 1
        self.counts.lost += len(everybody)

    def _grow(self) -> bool:
        """Lengthen the areas of all that run for their next token; False at the first that cannot."""
        for request in self.running:
            wanted = self._blocks_for(request.known_tokens)
            missing = wanted - request.table.blocks
            if missing <= 0:
                continue
            start = self.memory.grow(self._areas[request], wanted * self.config.block_size)
            if start is None:
                return False
            self._areas[request] = start
            self.pool.take(request.table, missing, request.number)
        return True

    def _wanted_tokens(self, request: Request) -> int:
        return self._blocks_for(request.known_tokens) * self.config.block_size
