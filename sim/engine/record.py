"""What a run leaves behind: one record a turn, and totals of the engine. Times are seconds from the start."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.step_log import StepLog
    from sim.scheduling.pressure import Pressure
    from sim.scheduling.waste import Waste


class Outcome(Enum):
    """How a turn ended; every turn sent has exactly one."""

    COMPLETED = "completed"
    UNFINISHED = "unfinished"  # the run stopped first
    REFUSED = "refused"  # can never fit the KV cache or max_model_len
    ABORTED = "aborted"  # the client gave up waiting
    REJECTED = "rejected"  # answered 503 to the last try
    SHED = "shed"  # dropped to leave memory to others
    LOST = "lost"  # with the process that held it


UNANSWERED = {  # turns that are over without an answer: status code and reason, as a client is told
    Outcome.REFUSED: (400, "refused: longer than the KV cache or max_model_len"),
    Outcome.REJECTED: (503, "rejected: too many requests in flight, or the engine is down"),
    Outcome.SHED: (503, "shed: dropped for requests of higher priority"),
    Outcome.LOST: (500, "lost: the engine ran out of memory"),
}


class TurnRecord:
    """One turn, from the client's send to its last token."""

    __slots__ = (
        "arrival_s",
        "chunks",
        "client",
        "depth",
        "evicted_by",
        "first_token_s",
        "hit_tokens",
        "last_token_s",
        "lost_tokens",
        "origin_s",
        "outcome",
        "output_tokens",
        "penalised",
        "population",
        "preemptions",
        "prompt_tokens",
        "queued_s",
        "reprefilled_tokens",
        "resumed_steps",
        "scheduled_s",
        "session",
        "steps",
        "structured",
        "token_steps",
        "turn",
    )

    def __init__(  # noqa: PLR0917 - compiled, and made once a turn
        self,
        population: str,
        client: int,
        session: str,
        turn: int,
        prompt_tokens: int,
        output_tokens: int,
        arrival_s: float,
    ) -> None:
        self.population = population
        self.client = client
        self.session = session
        self.turn = turn  # from 0
        self.depth = 0  # 1: of a subagent, 2: of a subagent's
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.arrival_s = arrival_s  # the client sends
        self.queued_s = math.nan  # the scheduler sees it
        self.scheduled_s = math.nan  # first admission
        self.first_token_s = math.nan  # with the client
        self.last_token_s = math.nan
        self.hit_tokens = 0  # found cached at first admission
        self.lost_tokens = 0  # of the prompt: cached once, evicted before its first admission
        self.reprefilled_tokens = 0  # computed once before, evicted or preempted away, computed again
        self.preemptions = 0
        self.penalised = False
        self.structured = False
        self.evicted_by = ""  # whose allocation took the first block that was missing
        self.outcome = Outcome.UNFINISHED
        self.steps: StepLog | None = None  # of the engine it went to
        self.token_steps: Sequence[int] = ()  # first and last step of each stretch that brought a token a step
        self.chunks: list[tuple[int, int, int]] = []  # step, tokens before, tokens of each part of a prefill, if kept
        self.resumed_steps: list[int] = []  # the first after each preemption, if chunks are kept
        self.origin_s = 0.0  # on the engine's clock, where this record's times count from

    @property
    def ttft_s(self) -> float:
        """Time to first token as the client sees it."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float:
        """Time to the last token as the client sees it."""
        return self.last_token_s - self.arrival_s

    @property
    def first_seen_s(self) -> float:
        """When the first token came, of a turn still under way too; NaN before."""
        if self.steps is None or not self.token_steps:
            return math.nan
        return self.steps.ends_s[self.token_steps[0] - 1] - self.origin_s

    @property
    def received_tokens(self) -> int:
        """Tokens that came back."""
        steps = self.token_steps
        return sum(steps[1::2]) - sum(steps[::2]) + len(steps) // 2

    @property
    def token_times_s(self) -> list[float]:
        """When each token came."""
        steps, log = self.token_steps, self.steps
        times: list[float] = []
        if log is not None:
            for first, last in zip(steps[::2], steps[1::2], strict=True):
                times += log.ends_s[first - 1 : last]
        return [time_s - self.origin_s for time_s in times] if self.origin_s else times

    def shift(self, by_s: float) -> None:
        """Move all times, so that they count from another moment."""
        self.arrival_s += by_s
        self.queued_s += by_s
        self.scheduled_s += by_s
        self.first_token_s += by_s
        self.last_token_s += by_s
        self.origin_s -= by_s


class Records(Protocol):
    """Takes the records of a run; a list keeps them."""

    def append(self, record: TurnRecord, /) -> None:
        """Take a record when its turn is sent: what it says changes until the turn is over."""
        ...


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
    waste: "Waste | None" = None  # of a policy that counts it
    pressure: "Pressure | None" = None  # of an engine that rejects, swaps, sheds or dies

    @property
    def kv_usage_mean(self) -> float:
        """Usage averaged over the time the engine was busy."""
        return self.kv_usage_seconds / self.busy_s if self.busy_s else 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """One simulated run; without records where something else took them."""

    records: list[TurnRecord]
    log: EngineLog
    duration_s: float
    num_gpu_blocks: int
