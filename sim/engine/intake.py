"""What an engine has taken in: turns queued, dropped, told of their end; who asked for what. No clock runs here.

`Engine` is this with the loop that schedules and runs steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import simpy

from sim.engine.extras import Extras
from sim.engine.pressure_costs import PressureCosts
from sim.engine.record import Outcome, TurnRecord
from sim.engine.step_log import StepLog
from sim.kv.content import ContentTree
from sim.scheduling.batch import Admission
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.pressure import Pressure
from sim.scheduling.request import Request, Status
from sim.steptime.ahead import StepPrices
from sim.steptime.batch import BatchShape
from workloads.session import Prompt

_ASKED_AT_FIRST = 10_000


class _Live(NamedTuple):
    """A turn in the engine: who is told of its end, and from which token on its content is of no use then."""

    request: Request
    done: Callable[[], object]
    over_from: int | None


class Intake:
    """Turns on their way through one scheduler."""

    def __init__(  # noqa: PLR0917 - compiled
        self,
        env: simpy.Environment,
        scheduler: ContinuousScheduler,
        prices: StepPrices,
        under_pressure: PressureCosts,
        first_token_due_s: float | None,
        extras: Extras | None,
    ) -> None:
        self.env = env
        self.scheduler = scheduler
        self.pressure = scheduler.pressure or (Pressure() if under_pressure.rejects else None)
        self.steps = StepLog()
        # Told of each record that changes no more. The engine then remembers nothing of such a turn either: of content
        # that nobody will send again, it knows no longer that it was there.
        self.on_over: Callable[[TurnRecord], object] | None = None
        self._prices = prices
        self._under_pressure = under_pressure
        self._down_until_s = -1.0  # after a crash
        self._first_token_due_s = first_token_due_s
        self._extras = extras
        self._content = ContentTree(scheduler.config.block_size)
        self._requests = 0
        self._asked: dict[int, tuple[str, int]] = {}  # session and turn, by request number
        self._asked_most = _ASKED_AT_FIRST
        self._live: dict[TurnRecord, _Live] = {}
        self._work = env.event()

    def submit(self, prompt: Prompt, record: TurnRecord, done: Callable[[], object], priority: int = 0) -> bool:
        """Queue a turn, `done` to be called at its last token; False if the engine does not take it.

        Then it is refused, for it can never fit, or rejected for now (503): the client may send it again, or `give_up`.
        """
        scheduler = self.scheduler
        room = scheduler.config.max_model_len - record.prompt_tokens
        record.output_tokens = min(record.output_tokens, max(room, 1))
        record.queued_s = self.env.now
        if not scheduler.can_ever_fit(record.prompt_tokens, record.output_tokens):
            record.outcome = Outcome.REFUSED
            self.give_up(record)
            return False
        if self.pressure is not None and self._rejects():
            self.pressure.rejections += 1
            record.outcome = Outcome.REJECTED
            return False
        number = self._requests
        self._requests += 1
        if len(self._asked) == self._asked_most:
            self._forget_who_asked()
        self._asked[number] = record.session, record.turn
        record.steps = self.steps
        answer = prompt.output
        if answer.length != record.output_tokens:
            answer = answer._replace(length=record.output_tokens)
        request = Request(
            str(number),
            number,
            record.prompt_tokens,
            record.output_tokens,
            self._content.content((*prompt.spans, answer)),
            priority=priority,
            arrival=float(number),  # distinct, as real times are: ties of priority could preempt each other for ever
            owner=record,
        )
        if self._extras is not None:
            self._extras.mark(request)
            record.penalised, record.structured = request.penalised, request.structured
        if self._first_token_due_s is not None:
            request.due_s = self.env.now + self._first_token_due_s - self._prefill_s(record.prompt_tokens)
        scheduler.add(request)
        self._live[record] = _Live(request, done, prompt.over_from)
        if not self._work.triggered:
            self._work.succeed()
        return True

    def give_up(self, record: TurnRecord) -> None:
        """Take note that a turn that the engine did not take is over."""
        if self.on_over is not None:
            self.on_over(record)

    def abort(self, record: TurnRecord) -> None:
        """Drop a turn whose client is gone; it counts as aborted.

        One that waits leaves the queue at once. One that runs leaves when its step ends, with its next token, as
        the engine takes in aborts between steps.
        """
        if record not in self._live:
            return
        request = self._live[record].request
        record.outcome = Outcome.ABORTED
        self.scheduler.settle(request)
        if request.status is Status.RUNNING or request.in_flight_outputs:
            self.scheduler.change_output(request, request.generated_tokens + max(request.in_flight_outputs, 1))
        else:
            self.scheduler.withdraw(request)
            self._retire(request)

    def forget(self, prompt: Prompt, first_token: int) -> None:
        """Take note that nobody will send a prompt's tokens again from this one on."""
        if self.on_over is not None:
            self._content.forget(self._content.content(prompt.spans), first_token // self.scheduler.config.block_size)

    def settle(self) -> None:
        """Enter the tokens that came so far of turns that are still under way."""
        self.scheduler.settle_all()
        for record, live in self._live.items():
            record.token_steps = live.request.token_steps

    def _rejects(self) -> bool:
        scheduler = self.scheduler
        if self.env.now < self._down_until_s:
            return True
        in_flight = len(scheduler.waiting) + len(scheduler.running)
        return self._under_pressure.admission.is_reached(in_flight, scheduler.pool.usage)

    def _drop(self, outcome: Outcome) -> None:
        """Tell those whom the scheduler has dropped."""
        dropped = self.scheduler.dropped
        self.scheduler.dropped = []
        for request in dropped:
            request.owner.outcome = outcome
            self._retire(request)

    def _note_admission(self, admission: Admission, now_s: float) -> None:
        request = admission.request
        record: TurnRecord = request.owner
        if admission.resumed:
            record.reprefilled_tokens += max(0, request.preempted_tokens - admission.hit_tokens)
            return
        record.scheduled_s = now_s
        record.hit_tokens = admission.hit_tokens
        record.lost_tokens = admission.lost_blocks * self.scheduler.config.block_size
        record.reprefilled_tokens += record.lost_tokens
        if admission.lost_to >= 0:
            session, turn = self._asked[admission.lost_to]
            record.evicted_by = f"{session}/{turn}"

    def _prefill_s(self, tokens: int) -> float:
        """Return how long a prompt takes alone, in one step."""
        return self._prices.seconds(BatchShape(tokens, 1, tokens * (tokens + 1) / 2, 0, 0, 0.0, True, tokens))

    def _wait_for_work(self) -> simpy.Event:
        self._work = self.env.event()
        return self._work

    def _retire(self, request: Request) -> None:
        record: TurnRecord = request.owner
        _, done, over_from = self._live.pop(record)
        record.token_steps = request.token_steps
        if self.on_over is not None:
            if over_from is not None:
                self._content.forget(request.content, over_from // self.scheduler.config.block_size)
            self.on_over(record)
        done()

    def _forget_who_asked(self) -> None:
        """Forget the turns that are over and took no block that somebody may still miss."""
        named = self._content.takers().union(live.request.number for live in self._live.values())
        self._asked = {number: turn for number, turn in self._asked.items() if number in named}
        self._asked_most = 2 * len(self._asked) + _ASKED_AT_FIRST
