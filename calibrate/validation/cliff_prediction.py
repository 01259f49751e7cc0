"""What our engine does with a recorded workload: the slots replayed in closed loop, steps priced by a fit.

Each replicate is one draw of the fit: coefficients from its bootstrap, steps off their price as measured ones were.
Only the workload and the engine's settings go in; the arrivals of all but the first turns follow from the answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
import numpy as np

from calibrate.fitting.whole_steps import WholeStepsFit
from calibrate.validation.cliff_runs import EngineSettings, RecordedRun
from calibrate.validation.cliff_workload import SlotScript, Workload
from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome, Run, TurnRecord
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.errors import MeasurementError
from workloads.session import Prompt, Session, Turn
from workloads.span import Span

if TYPE_CHECKING:
    from sim.steptime.model import StepTimeModel
    from workloads.agent import AgentWorkload

UNLIMITED_BLOCKS = 1 << 15  # a million tokens of 32 a block: more than any of these workloads ever computes


class CliffMetrics(NamedTuple):
    """One run in numbers, measured or predicted. TTFT counts from when a turn fell due."""

    turns_per_s: float
    hit_rate: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    itl_mean_s: float
    preemptions: float
    busy_s: float


class _Answer(NamedTuple):
    due_s: float
    first_s: float
    last_s: float
    tokens: int
    prompt_tokens: int
    hit_tokens: int
    preemptions: int


def measured_metrics(run: RecordedRun) -> CliffMetrics:
    """Return what the real engine did."""
    answers = [
        _Answer(
            one.due,
            one.token_times[0],
            one.token_times[-1],
            len(one.token_times),
            one.prompt_len,
            one.first_hit,
            one.preemptions,
        )
        for one in run.requests
    ]
    return _metrics(answers, run.busy_s)


def predicted_metrics(workload: Workload, engine: EngineSettings, fit: WholeStepsFit, seed: int) -> CliffMetrics:
    """Return what one replicate of our engine does; the same seed gives the same draws to any engine settings.

    Raises MeasurementError if a turn can never fit the engine's cache or max_model_len.
    """
    steps = fit.draw(np.random.default_rng([seed, 0]))
    setup = EngineSetup(
        scheduler=engine.scheduler,
        num_gpu_blocks=engine.num_gpu_blocks,
        steps=cast("StepTimeModel", steps),  # anything that prices a batch
        enable_prefix_caching=engine.enable_prefix_caching,
    )
    run = simulate(setup, LoadSetup((_population(workload),), StopRule(), warm_start=False), seed)
    answers = [
        _Answer(
            one.arrival_s,
            one.first_token_s,
            one.last_token_s,
            one.received_tokens,
            one.prompt_tokens,
            one.hit_tokens,
            one.preemptions,
        )
        for one in _completed(run, workload)
    ]
    return _metrics(answers, run.log.busy_s)


def unlimited(engine: EngineSettings) -> EngineSettings:
    """Return the settings with a cache that holds everything."""
    return msgspec.structs.replace(engine, num_gpu_blocks=max(UNLIMITED_BLOCKS, engine.num_gpu_blocks))


def mean_metrics(runs: Sequence[CliffMetrics]) -> CliffMetrics:
    """Return each metric's mean."""
    return CliffMetrics(*np.mean(runs, axis=0).tolist())


def _metrics(answers: Sequence[_Answer], busy_s: float) -> CliffMetrics:
    ttft_s = [answer.first_s - answer.due_s for answer in answers]
    gaps = sum(answer.tokens - 1 for answer in answers)
    p50, p90, p99 = np.percentile(ttft_s, (50, 90, 99)).tolist()
    return CliffMetrics(
        turns_per_s=len(answers) / max(answer.last_s for answer in answers),
        hit_rate=sum(answer.hit_tokens for answer in answers) / sum(answer.prompt_tokens for answer in answers),
        ttft_p50_s=p50,
        ttft_p90_s=p90,
        ttft_p99_s=p99,
        itl_mean_s=sum(answer.last_s - answer.first_s for answer in answers) / gaps if gaps else 0.0,
        preemptions=float(sum(answer.preemptions for answer in answers)),
        busy_s=float(busy_s),
    )


def _completed(run: Run, workload: Workload) -> list[TurnRecord]:
    for record in run.records:
        if record.outcome is not Outcome.COMPLETED:
            place = f"{workload.profile}, {workload.sessions} sessions, slot {record.client}, turn {record.turn}"
            raise MeasurementError(f"{place}: {record.prompt_tokens} tokens and the answer can never fit the engine")
    return run.records


@dataclass(frozen=True, slots=True)
class _SlotSession(Session):
    """A slot as one session of our engine: its conversations one after the other, each from its own beginning."""

    conversations: tuple[Session, ...] = ()

    def prompts(self) -> Iterator[Prompt]:
        """Yield every turn's prompt."""
        return chain.from_iterable(conversation.prompts() for conversation in self.conversations)


@dataclass(frozen=True, slots=True)
class _Slots:
    """Hands out the slots in order, and says when they start."""

    sessions: Iterator[Session]
    starts_s: list[float]
    prefix: tuple[Span, ...] = field(default=())

    def session(self, name: str, rng: np.random.Generator) -> Session:  # noqa: ARG002 - recorded, not drawn
        """Return the next slot."""
        return next(self.sessions)

    def times(self, rng: np.random.Generator) -> Iterator[float]:  # noqa: ARG002 - recorded, not drawn
        """Yield the slots' starts."""
        return iter(self.starts_s)


def _population(workload: Workload) -> Population:
    prefix = (Span("system prompt", 0, workload.shared_prefix_tokens),)
    slots = sorted(workload.slots, key=lambda slot: slot.start)
    given = _Slots(iter([_slot_session(slot, prefix) for slot in slots]), [slot.start for slot in slots])
    return Population("slots", cast("AgentWorkload", given), start=_Nobody(), arrivals=given)


@dataclass(frozen=True, slots=True)
class _Nobody:
    """No clients of a drawn kind."""

    def offsets_s(self, clients: int, rng: np.random.Generator) -> list[float]:  # noqa: ARG002 - nobody
        """Return no starts."""
        return []


def _slot_session(slot: SlotScript, prefix: tuple[Span, ...]) -> Session:
    """Return a slot's session; the recorded pause comes before a turn, ours after the one before it."""
    pauses = [*(turn.think for turn in slot.turns[1:]), 0.0]
    turns: dict[str, list[Turn]] = {}
    for turn, pause in zip(slot.turns, pauses, strict=True):
        turns.setdefault(turn.session, []).append(Turn(turn.new_tokens, turn.output_len, pause))
    conversations = tuple(Session(name, prefix, tuple(own)) for name, own in turns.items())
    return _SlotSession(slot.turns[0].session, prefix, tuple(chain(*turns.values())), conversations=conversations)
