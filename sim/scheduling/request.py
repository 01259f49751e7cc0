"""A request in the engine: one turn, from waiting to finished."""

from enum import Enum
from typing import Any

from sim.kv.content import Content
from sim.kv.extent import Table


class Status(Enum):
    """Where a request is."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class Request:
    """What the scheduler knows of a request.

    `content` names every full block of prompt plus output, so the output's content is settled beforehand;
    `output_tokens` is how many will be generated (already cut by max_model_len). While a request decodes in a group
    (see decode_group.py), what changes from step to step stands still here until the group is asked to settle it.
    """

    __slots__ = (
        "arrival",
        "computed_tokens",
        "content",
        "due_s",
        "generated_tokens",
        "id",
        "in_flight_outputs",
        "in_group",
        "last_step",
        "num_preemptions",
        "number",
        "output_tokens",
        "owner",
        "penalised",
        "place",
        "preempted_tokens",
        "priority",
        "prompt_tokens",
        "settled_output",
        "settled_step",
        "status",
        "structured",
        "table",
        "token_steps",
    )

    def __init__(  # noqa: PLR0917 - compiled, and made once a turn
        self,
        id: str,  # noqa: A002 - the engine's word
        number: int,
        prompt_tokens: int,
        output_tokens: int,
        content: Content,
        priority: int = 0,
        arrival: float = 0.0,
        owner: Any = None,
    ) -> None:
        self.id = id
        self.number = number  # unique, in order of arrival
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.content = content
        self.priority = priority
        self.arrival = arrival
        self.due_s = 0.0  # when its prefill must begin for its first token to keep a deadline (order.py)
        self.owner = owner  # whoever submitted it knows; the scheduler never looks
        self.status = Status.WAITING
        self.generated_tokens = 0  # processed outputs
        self.computed_tokens = 0  # advanced when a batch is scheduled, not when it returns
        self.in_flight_outputs = 0  # sampled by a batch that has not been processed (vLLM: output placeholders)
        self.num_preemptions = 0
        self.preempted_tokens = 0  # computed, or in flight, when it was last preempted
        self.table = Table()
        self.token_steps: list[int] = []  # first and last step of each stretch with a token a step
        self.place = 0  # ascends along the running list
        self.in_group = False
        self.settled_step = 0  # of a group: all up to this step is counted in the fields above,
        self.settled_output = 0  # and tokens up to the one of this step
        self.penalised = False  # samples with penalties on its own output
        self.structured = False  # samples within a grammar
        self.last_step = 0  # of a group: samples its last token

    @property
    def known_tokens(self) -> int:
        """Prompt and processed outputs."""
        return self.prompt_tokens + self.generated_tokens

    def note_tokens(self, first_step: int, last_step: int) -> None:
        """Remember that each of these steps yielded a token."""
        steps = self.token_steps
        if steps and steps[-1] == first_step - 1:
            steps[-1] = last_step
        else:
            steps += (first_step, last_step)
