"""Python dict literals inside JSON strings, as ServeGen writes probabilities: parsed, never evaluated.

`"{18: 0.2, 1401: 0.8}"` is a table from numbers to weights. Text with anything but numbers in one pair of braces is
refused before it is parsed, so neither nesting nor names nor arithmetic reach the parser.
"""

import ast
import math
import re
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

MOST_LITERAL_CHARACTERS = 2**20  # the data's largest has a tenth
_FLAT = re.compile(r"\s*\{[\s\d.,:eE+-]*\}\s*", re.ASCII)


class WeightTable(NamedTuple):
    """Numbers, ascending, and the running sum of their weights, up to 1."""

    values: NDArray[np.float64]
    below: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.values @ np.diff(self.below, prepend=0.0))

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Return so many values."""
        places = np.searchsorted(self.below, rng.random(count), side="right")
        return self.values[np.minimum(places, len(self.values) - 1)]


def _table(text: str) -> dict[float, float]:
    """Return a flat literal as a dict: with its keys quoted it is JSON, which is read ten times as fast.

    What Python has and JSON has not, such as `.5`, is left to `ast.literal_eval`.
    """
    try:
        quoted = "".join(text.split()).replace("{", '{"').replace(",", ',"').replace(":", '":')
        pairs = msgspec.json.decode(quoted, type=dict[str, float])
        return {float(key): weight for key, weight in pairs.items()}
    except (msgspec.DecodeError, ValueError):
        pass
    try:
        return {float(key): float(weight) for key, weight in ast.literal_eval(text.strip()).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, SyntaxError, RecursionError, MemoryError):
        raise ValueError("no literal of numbers and their probabilities") from None


def weight_table(text: str, most: float) -> WeightTable | None:
    """Return a literal as a table, or None for an empty one.

    Raises ValueError, with what is wrong in words, for anything but numbers from 0 to `most` with weights.
    """
    if len(text) > MOST_LITERAL_CHARACTERS:
        raise ValueError(f"a literal of more than {MOST_LITERAL_CHARACTERS:,} characters")
    if _FLAT.fullmatch(text) is None:
        raise ValueError("no literal of numbers and their probabilities")
    table = _table(text)
    if not table:
        return None
    for value, weight in table.items():
        if not 0 <= value <= most:
            raise ValueError(f"number {value:.15g} must be from 0 to {most:,.15g}")
        if not 0 <= weight < math.inf:
            raise ValueError(f"probability {weight:.15g} must be a finite number of at least 0")
    values = np.array(sorted(table), dtype=float)
    weights = np.array([table[value] for value in sorted(table)], dtype=float)
    total = float(weights.sum())
    if not 0 < total < math.inf:
        raise ValueError(f"probabilities sum to {total:g}")
    return WeightTable(values, np.cumsum(weights / total))
