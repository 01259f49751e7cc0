"""A JSON object of a result, read key by key: a wrong value is refused with file, place and key.

What is missing, null, or no number (NaN, which some tools write for "none") reads as None.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.errors import MeasurementError

MOST = 1e15  # of anything a load test counts; more is a broken file
MOST_S = 1e8  # three years


@dataclass(frozen=True, slots=True)
class Fields:
    """One object and where it stands."""

    file: Path
    place: str  # `line 3`, `benchmark 2`, or empty
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        """File and place, as messages begin."""
        return f"{self.file}: {self.place}" if self.place else str(self.file)

    def wrong(self, key: str, rule: str) -> MeasurementError:
        """Return the error that names the key, its value and the rule."""
        shown = repr(self.values.get(key))
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return MeasurementError(f"{self.where}: {key} {shown} {rule}")

    def real(self, *keys: str) -> float | None:
        """Return the first of these keys that holds a finite number, negative or not."""
        for key in keys:
            value = self.values.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.wrong(key, "is not a number")
            if MOST < abs(value) < math.inf:  # compared, not converted: an int may be larger than any float
                raise self.wrong(key, "is more than any load test counts")
            if math.isfinite(value):
                return float(value)
        return None

    def number(self, *keys: str) -> float | None:
        """Return the first of these keys that holds a finite number; none may be negative."""
        value = self.real(*keys)
        if value is not None and value < 0:
            raise self.wrong(next(key for key in keys if self.values.get(key) == value), "is negative")
        return value

    def whole(self, *keys: str) -> int | None:
        """Return the first of these keys that holds a count."""
        value = self.number(*keys)
        if value is None:
            return None
        if value != int(value):
            raise self.wrong(next(key for key in keys if self.values.get(key) == value), "is not a whole number")
        return int(value)

    def seconds(self, *keys: str, unit_s: float = 1.0) -> float | None:
        """Return a duration, converted to seconds."""
        value = self.number(*keys)
        if value is not None and value * unit_s > MOST_S:
            raise self.wrong(keys[0], f"is more than {MOST_S:g} s: is this the right unit?")
        return None if value is None else value * unit_s

    def text(self, *keys: str) -> str | None:
        """Return the first of these keys that holds text that is not empty."""
        return next((value for key in keys if isinstance(value := self.values.get(key), str) and value), None)

    def inner(self, key: str, place: str | None = None) -> "Fields":
        """Return the object under this key, empty where there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "is not an object")
        below = place if place is not None else f"{self.place}, {key}" if self.place else key
        return Fields(self.file, below, value or {})

    def items(self, key: str) -> list[Any]:
        """Return the list under this key, empty where there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.wrong(key, "is not a list")
        return value or []

    def numbers(self, key: str, *, unit_s: float = 1.0) -> list[float | None]:
        """Return a list of durations in seconds; None where a request has none (null, NaN, below 0)."""
        return [self._duration(key, at, value, unit_s) for at, value in enumerate(self.items(key))]

    def number_lists(self, key: str, *, unit_s: float = 1.0) -> list[tuple[float, ...]]:
        """Return a list of lists of durations in seconds."""
        rows = []
        for at, row in enumerate(self.items(key)):
            if row is not None and not isinstance(row, list):
                raise MeasurementError(f"{self.where}: {key}[{at}] is not a list")
            gaps = (self._duration(f"{key}[{at}]", one, value, unit_s) for one, value in enumerate(row or ()))
            rows.append(tuple(gap for gap in gaps if gap is not None))
        return rows

    def counts(self, key: str) -> list[int]:
        """Return a list of counts, 0 for null."""
        counts = []
        for at, value in enumerate(self.items(key)):
            if isinstance(value, bool) or not isinstance(value, int | float | None):
                raise MeasurementError(f"{self.where}: {key}[{at}] {value!r} is not a count")
            if value is not None and not 0 <= value <= MOST:
                raise MeasurementError(f"{self.where}: {key}[{at}] {value!r} is not a count of 0 to {MOST:g}")
            counts.append(int(value or 0))
        return counts

    def _duration(self, key: str, at: int, value: Any, unit_s: float) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MeasurementError(f"{self.where}: {key}[{at}] {str(value)[:40]!r} is not a number")
        if (isinstance(value, float) and not math.isfinite(value)) or value < 0:
            return None
        if value > MOST or value * unit_s > MOST_S:
            raise MeasurementError(f"{self.where}: {key}[{at}] {str(value)[:40]} is more than {MOST_S:g} s")
        return value * unit_s


def scalars(values: Mapping[str, Any], known: frozenset[str]) -> dict[str, str]:
    """Return as text what stands beside the known keys: settings somebody noted with the result."""
    return {
        str(key): str(value)
        for key, value in values.items()
        if key not in known and isinstance(value, str | int | float) and value != "" and len(str(value)) <= 200
    }
