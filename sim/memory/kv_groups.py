"""Layers that share one block table, and how many blocks of it a request holds.

All groups draw blocks of equal size in bytes from one pool; how many tokens a block holds differs by group.
"""

from dataclasses import dataclass
from enum import Enum


class Keeps(Enum):
    """What a group keeps of a sequence."""

    ALL = "full"  # every token
    WINDOW = "window"  # the last `span_tokens` tokens
    CHUNK = "chunk"  # the tokens of the current stretch of `span_tokens`
    STATE = "state"  # a state of fixed size


@dataclass(frozen=True, slots=True)
class KvGroup:
    """One group of layers on one rank."""

    keeps: Keeps
    layers: int  # that are real: padding left out
    block_size: int  # tokens
    span_tokens: int = 0  # of a window or chunk
    state_blocks: int = 0  # a running sequence holds, of a state

    def blocks_for(self, tokens: int, in_flight_tokens: int) -> int:
        """Return the most blocks a request of so many tokens holds at once, as vLLM reserves them.

        `in_flight_tokens` are scheduled and not yet settled: the step budget, times two where steps overlap.
        """
        match self.keeps:
            case Keeps.ALL:
                return -(-tokens // self.block_size)
            case Keeps.WINDOW:  # one more: a window need not begin with a block
                return -(-min(self.span_tokens - 1 + in_flight_tokens, tokens) // self.block_size) + 1
            case Keeps.CHUNK:
                return -(-min(self.span_tokens + in_flight_tokens, tokens) // self.block_size)
            case Keeps.STATE:
                return self.state_blocks
