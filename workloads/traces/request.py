"""One request of a trace, whatever its format: when it came, how long prompt and answer were, and what the prompt held.

Content comes in one of two shapes. `BlockIds` are what most traces have: ids of blocks of a fixed size, each standing
for the prompt up to and including its block. Spans are for the rest, such as messages known by their text, or sessions
that say how much of the last prompt they keep. A trace without content has lengths alone; nobody can tell its hits.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from workloads.span import Span

MOST_TOKENS = 10_000_000  # of one prompt or answer
MOST_SECONDS = 1e8  # three years; beyond, a clock in seconds no longer tells steps apart

HUMAN, TOOL = "human", "tool"  # who drives a request


class BlockIds(NamedTuple):
    """The prompt's blocks of `block_tokens` by id, in order; the last may be partial, or the tail may have no id.

    Equal ids of one scope mean equal prompts up to the end of the block; ids of two scopes have nothing in common.
    """

    ids: Sequence[Hashable]
    block_tokens: int
    scope: Hashable = None  # None: the whole trace


Content = BlockIds | tuple[Span, ...]


class TraceRequest(NamedTuple):
    """One request. None is what a trace does not say."""

    row: int  # in its file, from 1: a line, or the number of a request where a line holds many
    prompt_tokens: int  # the whole prompt, history included
    output_tokens: int
    at_s: float | None = None  # on the trace's clock; see `Clock` of its format
    session: str | None = None  # requests of one session ascend in time
    content: Content | None = None  # of the prompt
    gap_s: float | None = None  # from the answer to the session's previous request to this one: think time
    api_s: float | None = None  # how long the recorded server took
    driver: str | None = None  # HUMAN or TOOL
    parent: str | None = None  # the session that started this one, and waits until it is over (a subagent)
    after: int | None = None  # of a subagent: how many of its parent's requests came before it
    shared_tokens: int = 0  # of the front, beyond what content tells: the same in all sessions of the trace
    answer: Span | None = None  # content of the answer, where later prompts of the trace hold it
    file: str | None = None  # of a folder: which file the row is of
