"""What a step and a request cost around the forward pass, term by term; what is zero costs nothing.

Each term is a mechanism with its own variable, so that one can be measured by switching it on and off:

    host        scheduling and preparing inputs: Python work a step, and a sequence (vLLM V1's EngineCore and worker).
                With asynchronous scheduling it overlaps with the GPU: a step lasts at least that long. Else it adds up
    graphs      vLLM replays CUDA graphs of captured sizes: a step's rows are padded to the next (cuda_graphs.py)
    eager       a kernel that no graph holds leaves a gap on the GPU, however far ahead the host is
    sampling    a sequence: its random number and its cut of the distribution
    penalties   scan all the output there is of a sequence, so they grow with it
    structured  a mask a sequence with a grammar; the whole batch waits for the last of them
    hashing     of prompt blocks for prefix caching, on the engine's own thread, once a request
    tokenising  by prompt length, before the engine sees the request
    link        half a round trip up and half down; `flush_s` is what the server holds a token back before it sends it
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of each term; shares are of requests, evenly spread over their order of arrival."""

    host_step_s: float = 0.0
    host_sequence_s: float = 0.0
    pads_to_cuda_graphs: bool = False
    eager_kernel_s: float = 0.0
    sampling_sequence_s: float = 0.0
    penalty_token_s: float = 0.0
    penalised_share: float = 0.0
    structured_step_s: float = 0.0
    structured_sequence_s: float = 0.0
    structured_share: float = 0.0
    hashing_token_s: float = 0.0
    tokenising_token_s: float = 0.0
    round_trip_s: float = 0.0
    flush_s: float = 0.0

    @property
    def sending_s(self) -> float:
        """From the client to the server."""
        return self.round_trip_s / 2

    @property
    def delivery_s(self) -> float:
        """From the end of the step that made a token to the client."""
        return self.round_trip_s / 2 + self.flush_s


COST_TERMS = tuple(field.name for field in fields(Costs) if field.name.endswith("_s"))
