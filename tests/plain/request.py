"""The reference of `sim.scheduling.request`: a request with an array of block numbers for its table."""

from dataclasses import dataclass, field

import numpy as np
from plain.block_pool import Blocks
from plain.content import Nodes

from sim.scheduling.request import Status


@dataclass(slots=True, eq=False)
class Request:
    """What the scheduler knows of a request.

    `nodes` names the content of every full block of prompt plus output, so the output's content is settled
    beforehand; `output_tokens` is how many will be generated (already cut by max_model_len).
    """

    id: str
    number: int  # unique, in order of arrival
    prompt_tokens: int
    output_tokens: int
    nodes: Nodes
    block_size: int
    priority: int = 0
    arrival: float = 0.0

    status: Status = Status.WAITING
    generated_tokens: int = 0  # processed outputs
    computed_tokens: int = 0  # advanced when a batch is scheduled, not when it returns
    in_flight_outputs: int = 0  # sampled by a batch that has not been processed (vLLM: output placeholders)
    num_blocks: int = 0
    num_registered: int = 0  # leading blocks whose content is in the prefix cache
    num_preemptions: int = 0
    preempted_tokens: int = 0  # computed, or in flight, when it was last preempted
    table: Blocks = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.table = np.zeros(-(-(self.prompt_tokens + self.output_tokens) // self.block_size), np.int64)

    @property
    def known_tokens(self) -> int:
        """Prompt and processed outputs."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def blocks(self) -> Blocks:
        """The block table in use."""
        return self.table[: self.num_blocks]
