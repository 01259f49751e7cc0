"""Records of a run that leave memory as they finish: their numbers stay, in a table, and a file may take the rest."""

from collections.abc import Sequence
from typing import Protocol

from sim.engine.record import TurnRecord
from sim.results.turn_table import TableBuilder, TurnTable

AT_ONCE = 16_384


class TurnFile(Protocol):
    """Takes turns that are over, so many at a time."""

    def write(self, records: Sequence[TurnRecord], numbers: TurnTable) -> None:
        """Write turns; the second argument holds the numbers of the first."""
        ...


class TableKeeper:
    """Takes records as turns are sent, and lets go of them some time after they are over."""

    def __init__(self, file: TurnFile | None = None) -> None:
        self._file = file
        self._under_way: dict[TurnRecord, None] = {}
        self._over: list[TurnRecord] = []
        self._builder = TableBuilder()

    def append(self, record: TurnRecord, /) -> None:
        """Take the record of a turn that is sent."""
        self._under_way[record] = None

    def over(self, record: TurnRecord, /) -> None:
        """Take note that it changes no more."""
        del self._under_way[record]
        self._over.append(record)
        if len(self._over) == AT_ONCE:
            self._let_go()

    def table(self) -> TurnTable:
        """Return all turns once the run has ended, those that it cut off last."""
        self._over += self._under_way
        self._under_way.clear()
        self._let_go()
        return self._builder.table()

    def _let_go(self) -> None:
        numbers = self._builder.add(self._over)
        if self._file is not None:
            self._file.write(self._over, numbers)
        self._over = []
