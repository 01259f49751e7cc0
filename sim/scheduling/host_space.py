"""Host memory for the KV blocks of preempted requests, as vLLM V0's `swap_space` had it: out over PCIe, and back.

Instead of computing a victim's tokens again, its blocks are copied out when it is preempted and copied back when it is
admitted again. Host memory is as large as it is: who finds no room is computed again (V0 gave up with an error there).
"""

from sim.scheduling.request import Request


class HostSpace:
    """`total_blocks` of host memory, as large as those of the GPU; who has how many, and of how many tokens."""

    def __init__(self, total_blocks: int) -> None:
        self.total_blocks = total_blocks
        self.free_blocks = total_blocks
        self._held: dict[Request, tuple[int, int]] = {}  # blocks, tokens

    def put(self, request: Request, blocks: int, tokens: int) -> bool:
        """Keep a request's blocks; False if there is no room."""
        if not blocks or blocks > self.free_blocks:
            return False
        self.free_blocks -= blocks
        self._held[request] = blocks, tokens
        return True

    def tokens_of(self, request: Request) -> int:
        """Return how many of a request's tokens have their KV here."""
        held = self._held.get(request)
        return 0 if held is None else held[1]

    def drop(self, request: Request) -> None:
        """Free what a request has here, if anything."""
        held = self._held.pop(request, None)
        if held is not None:
            self.free_blocks += held[0]

    def check_integrity(self) -> None:
        """Raise AssertionError unless free and held blocks add up."""
        assert self.free_blocks >= 0, self.free_blocks
        assert self.free_blocks + sum(blocks for blocks, _ in self._held.values()) == self.total_blocks
