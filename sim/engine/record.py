"""What a run leaves behind: one record a turn, and totals of the engine. Times are seconds from the start."""

import math
from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """How a turn ended; every turn sent has exactly one."""

    COMPLETED = "completed"
    UNFINISHED = "unfinished"  # the run stopped first
    REFUSED = "refused"  # can never fit the KV cache or max_model_len
    ABORTED = "aborted"  # the client gave up waiting


@dataclass(slots=True, eq=False)
class TurnRecord:
    """One turn, from the client's send to its last token."""

    population: str
    client: int
    session: str
    turn: int  # from 0
    prompt_tokens: int
    output_tokens: int
    arrival_s: float  # the client sends
    queued_s: float = math.nan  # the scheduler sees it
    scheduled_s: float = math.nan  # first admission
    first_token_s: float = math.nan
    last_token_s: float = math.nan
    hit_tokens: int = 0  # found cached at first admission
    reprefilled_tokens: int = 0  # computed once before, evicted or preempted away, computed again
    preemptions: int = 0
    evicted_by: str = ""  # whose allocation took the first block that was missing
    outcome: Outcome = Outcome.UNFINISHED
    token_times_s: list[float] = field(default_factory=list, repr=False)

    @property
    def ttft_s(self) -> float:
        """Time to first token as the client sees it."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float:
        """Time to the last token as the client sees it."""
        return self.last_token_s - self.arrival_s

    def shift(self, by_s: float) -> None:
        """Move all times, so that they count from another moment."""
        self.arrival_s += by_s
        self.queued_s += by_s
        self.scheduled_s += by_s
        self.first_token_s += by_s
        self.last_token_s += by_s
        self.token_times_s = [time_s + by_s for time_s in self.token_times_s]


@dataclass(slots=True)
class EngineLog:
    """Totals of one engine over a run."""

    steps: int = 0
    busy_s: float = 0.0
    computed_tokens: int = 0
    kv_usage_peak: float = 0.0
    kv_usage_seconds: float = 0.0  # integral of usage over busy time
    evicted_blocks: int = 0
    running_peak: int = 0

    @property
    def kv_usage_mean(self) -> float:
        """Usage averaged over the time the engine was busy."""
        return self.kv_usage_seconds / self.busy_s if self.busy_s else 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """One simulated run."""

    records: list[TurnRecord]
    log: EngineLog
    duration_s: float
    num_gpu_blocks: int
