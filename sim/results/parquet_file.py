"""Turns and steps as Parquet, through pyarrow; written a row group at a time, so memory need not hold them.

A turn has the columns of turns.csv, and in `token_steps` the first and last step of each stretch of steps in which it
got a token a step. The steps are a table of their own, with the time each ended: together they hold every token's
time. What is not known is null. pyarrow is only imported when a file is opened.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from sim.engine.record import TurnRecord
from sim.engine.step_log import StepLog
from sim.results.arrow_columns import coded, numbers, pyarrow, stretches, texts
from sim.results.turn_table import OUTCOMES, TurnTable

_STEPS_AT_ONCE = 1 << 20
_NAMES = ["population", "session", "outcome", "evicted_by"]
_COUNTS = ("prompt_tokens", "output_tokens", "hit_tokens", "reprefilled_tokens", "preemptions")
_TIMES = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s")


class RecordFiles(NamedTuple):
    """Where the records of a run go."""

    turns: Path
    steps: Path


class ParquetTurns:
    """An open file of turns."""

    def __init__(self, arrow: ModuleType, path: Path) -> None:
        self._arrow = arrow
        self._path = path
        self._writer: Any = None

    def write(self, records: Sequence[TurnRecord], table: TurnTable) -> None:
        """Write turns as a row group; `table` holds their numbers."""
        columns = _columns(self._arrow, records, table)
        rows = self._arrow.Table.from_arrays(list(columns.values()), list(columns))
        if self._writer is None:
            writer = self._arrow.parquet.ParquetWriter
            self._writer = writer(self._path, rows.schema, compression="zstd", use_dictionary=_NAMES)
        if records:
            self._writer.write_table(rows)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def _columns(arrow: ModuleType, records: Sequence[TurnRecord], table: TurnTable) -> dict[str, Any]:
    turns = table.turns
    return {
        "population": coded(arrow, turns["population"], table.populations),
        "session": texts(arrow, [record.session for record in records]),
        "turn": numbers(arrow, turns["turn"]),
        "depth": numbers(arrow, np.fromiter((record.depth for record in records), np.int32, len(records))),
        "outcome": coded(arrow, turns["outcome"], [outcome.value for outcome in OUTCOMES]),
        **{name: numbers(arrow, turns[name]) for name in _COUNTS},
        "evicted_by": texts(arrow, [record.evicted_by for record in records]),
        **{name: numbers(arrow, turns[name]) for name in _TIMES},
        "token_steps": stretches(arrow, turns["stretches"], table.stretches),
    }


@contextmanager
def parquet_turns(path: Path) -> Iterator[ParquetTurns]:
    """Open a file of turns; it is whole when the block ends without an error.

    Raises ScenarioError where pyarrow is not installed.
    """
    file = ParquetTurns(pyarrow(), path)
    try:
        yield file
    finally:
        file.close()


def write_steps(path: Path, steps: StepLog) -> None:
    """Write when each step ended and the KV blocks in use then; row `i` is step `i + 1`."""
    arrow = pyarrow()
    schema = arrow.schema([("end_s", arrow.float64()), ("blocks_in_use", arrow.int64())])
    with arrow.parquet.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for start in range(0, len(steps.ends_s), _STEPS_AT_ONCE):
            some = slice(start, start + _STEPS_AT_ONCE)
            columns = [numbers(arrow, steps.ends()[some]), numbers(arrow, steps.blocks()[some])]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))
