"""Turns as a table: a row of plain numbers a turn, some 90 bytes, however long its answer was.

When a turn's tokens came is not expanded: a stretch says from which step to which it got a token a step, and the
engine's step log when steps ended. Names stay with the records; of them only the population is a number here.
"""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import Outcome, TurnRecord
from sim.engine.step_log import StepLog

Rows = NDArray[np.void]
OUTCOMES = tuple(Outcome)
_COMPLETED = OUTCOMES.index(Outcome.COMPLETED)
_COUNTS = ("turn", "prompt_tokens", "output_tokens", "hit_tokens", "reprefilled_tokens", "preemptions")
_TIMES = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s")
_NAMES = [*_TIMES, *_COUNTS]
_NUMBERS = np.dtype([(name, np.float64 if name in _TIMES else np.int32) for name in _NAMES])
TURN = np.dtype(
    [
        *((name, _NUMBERS[name]) for name in _NAMES),
        ("first_seen_s", np.float64),  # the first token of unfinished turns too
        ("stretches", np.int32),
        ("population", np.int16),
        ("engine", np.int16),  # which step log
        ("outcome", np.int8),  # place in OUTCOMES
    ],
    align=True,
)


class TurnTable(NamedTuple):
    """Turns, in any order; `stretches` are those of the first turn, then those of the second, and so on."""

    turns: Rows
    stretches: NDArray[np.int32]  # first and last step, a row a stretch
    populations: Sequence[str]
    logs: Sequence[StepLog]

    def of(self, population: str) -> "TurnTable":
        """Return the turns of one population."""
        names = self.populations
        return self.where(self.turns["population"] == (names.index(population) if population in names else -1))

    def completed(self) -> "TurnTable":
        """Return the completed turns."""
        return self.where(self.turns["outcome"] == _COMPLETED)

    def where(self, chosen: NDArray[np.bool_]) -> "TurnTable":
        """Return some of the turns."""
        if chosen.all():
            return self
        stretches = self.stretches[np.repeat(chosen, self.turns["stretches"])]
        return self._replace(turns=self.turns[chosen], stretches=stretches)

    def count(self, outcome: Outcome) -> int:
        """Return how many turns ended so."""
        return int(np.count_nonzero(self.turns["outcome"] == OUTCOMES.index(outcome)))

    def received_tokens(self) -> NDArray[np.int64]:
        """Return how many tokens each turn got."""
        lengths = self.stretches[:, 1] - self.stretches[:, 0] + 1
        upto = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        ends = np.cumsum(self.turns["stretches"], dtype=np.int64)
        received: NDArray[np.int64] = upto[ends] - upto[ends - self.turns["stretches"]]
        return received


class TableBuilder:
    """Gathers turns, some at a time."""

    def __init__(self) -> None:
        self._populations: dict[str, int] = {}
        self._logs: dict[int, tuple[int, StepLog]] = {}  # by identity
        self._turns: list[Rows] = []
        self._stretches: list[NDArray[np.int32]] = []

    def add(self, records: Sequence[TurnRecord]) -> TurnTable:
        """Add turns; return them alone, as a table."""
        turns = np.empty(len(records), TURN)
        turns[_NAMES] = np.fromiter(map(attrgetter(*_NAMES), records), _NUMBERS, len(records))
        turns["population"] = [self._population(name) for name in map(attrgetter("population"), records)]
        turns["engine"] = [self._engine(log) for log in map(attrgetter("steps"), records)]
        turns["outcome"] = list(map(OUTCOMES.index, map(attrgetter("outcome"), records)))
        turns["first_seen_s"] = turns["first_token_s"]
        for row in np.flatnonzero(turns["outcome"] != _COMPLETED):
            turns["first_seen_s"][row] = records[int(row)].first_seen_s
        steps = [record.token_steps for record in records]
        turns["stretches"] = np.fromiter(map(len, steps), np.int32, len(steps)) // 2
        self._turns.append(turns)
        self._stretches.append(np.fromiter(chain.from_iterable(steps), np.int32).reshape(-1, 2))
        return self._table(turns, self._stretches[-1])

    def table(self) -> TurnTable:
        """Return all turns so far."""
        self._turns = [np.concatenate(self._turns or [np.empty(0, TURN)])]
        self._stretches = [np.concatenate(self._stretches or [np.empty((0, 2), np.int32)])]
        return self._table(self._turns[0], self._stretches[0])

    def _table(self, turns: Rows, stretches: NDArray[np.int32]) -> TurnTable:
        return TurnTable(turns, stretches, tuple(self._populations), tuple(log for _, log in self._logs.values()))

    def _population(self, name: str) -> int:
        return self._populations.setdefault(name, len(self._populations))

    def _engine(self, log: StepLog | None) -> int:
        return -1 if log is None else self._logs.setdefault(id(log), (len(self._logs), log))[0]


def table_of(records: Sequence[TurnRecord]) -> TurnTable:
    """Return the turns of these records."""
    return TableBuilder().add(records)
