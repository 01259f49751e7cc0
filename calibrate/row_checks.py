"""What a row of measurements must be: numbers that are numbers, times that can be true, nothing it needs missing.

Every check marks rows with the first reason against them; nothing raises, so one bad row never costs the others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from calibrate.csv_source import Rejected, shorten
from calibrate.measurements import LABELS, NEEDS, OPERATIONS, TEXT
from sim.errors import did_you_mean

SHORTEST_S, LONGEST_S = 1e-8, 1e4  # outside lies a wrong unit, not a kernel or a step
LARGEST_COUNT = 1e15

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Reasons:
    """The first reason against each row, by position; empty where there is none."""

    texts: npt.NDArray[np.object_]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "Reasons":
        """Return no reason against any row of the frame."""
        return cls(np.full(len(frame), "", dtype=object))

    def add(self, mask: Mask, reason: str, values: npt.NDArray[Any] | None = None) -> None:
        """Mark rows not yet marked; `{}` in the reason is the row's value."""
        for position in np.flatnonzero(mask & (self.texts == "")):
            shown = "" if values is None else shorten(str(values[position]))
            self.texts[position] = reason.replace("{}", shown)

    def split(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[Rejected]]:
        """Return the good rows, and the others by line (the frame's index) and reason."""
        bad = self.texts != ""
        return frame[~bad], [
            Rejected(int(line), reason) for line, reason in zip(frame.index[bad], self.texts[bad], strict=True)
        ]


def parse_numbers(values: pd.Series, reasons: Reasons, *, needed: bool, whole: bool = False) -> pd.Series:
    """Return a text column as floats, NaN where empty; what is no finite number >= 0 is marked."""
    text = values.str.strip()
    empty = (text == "").to_numpy()
    numbers = pd.to_numeric(text, errors="coerce").astype(float)
    found = numbers.to_numpy()
    shown = values.to_numpy()
    reasons.add(~empty & ~np.isfinite(found), f"{values.name} {{}} is not a finite number", shown)
    reasons.add(found < 0, f"{values.name} {{}} is negative", shown)
    if whole:
        reasons.add(np.isfinite(found) & (found != np.floor(found)), f"{values.name} {{}} is not a whole number", shown)
        reasons.add(found > LARGEST_COUNT, f"{values.name} {{}} is absurdly large", shown)
    if needed:
        reasons.add(empty, f"{values.name} is empty")
    return numbers


def check_rows(frame: pd.DataFrame, reasons: Reasons) -> None:
    """Mark rows of a typed table that name no known operation, miss what they need or took no possible time."""
    operation = frame["operation"].to_numpy()
    for word in sorted(set(operation) - set(OPERATIONS)):
        near = did_you_mean(str(word), OPERATIONS) if word else ""
        reasons.add(operation == word, f"operation {shorten(str(word))} is not one of the table's{near}")
    for word in sorted(set(frame["label"]) - {"", *LABELS}):
        valid = f"{', '.join(LABELS)}{did_you_mean(str(word), LABELS)}"
        reasons.add((frame["label"] == word).to_numpy(), f"label {shorten(str(word))} is not one of {valid}")
    reasons.add((frame["gpu"] == "").to_numpy(), "gpu is empty")
    for name, needed in NEEDS.items():
        of_this = operation == name
        for column in needed if of_this.any() else ():
            missing = frame[column] == "" if column in TEXT else frame[column].isna()
            reasons.add(of_this & missing.to_numpy(), f"{column} is empty, and {name} needs it")
    _check_times(frame, reasons)


def _check_times(frame: pd.DataFrame, reasons: Reasons) -> None:
    timed = (frame["operation"] != "peak_memory").to_numpy()
    for column in ("time_s", "time_low_s", "time_high_s"):
        time_s = frame[column].to_numpy()
        if column == "time_s":
            reasons.add(timed & np.isnan(time_s), "time_s is empty")
        given = timed & ~np.isnan(time_s)
        reasons.add(given & (time_s <= 0), f"{column} {{}} is not above zero", time_s)
        reasons.add(
            given & (time_s < SHORTEST_S), f"{column} {{}} is shorter than {SHORTEST_S:g} s: wrong unit?", time_s
        )
        reasons.add(given & (time_s > LONGEST_S), f"{column} {{}} is longer than {LONGEST_S:g} s: wrong unit?", time_s)
