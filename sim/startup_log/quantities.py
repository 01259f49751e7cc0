"""Numbers as engines print them, turned into bytes, tokens and shares, or refused.

vLLM's GiB and SGLang's GB both mean 2**30 bytes. A number that no machine can have (NaN, 1e308, four hundred digits,
a negative capacity) is an error of the log: nothing that is computed from it would be worth showing.
"""

import math
from collections.abc import Callable

from sim.startup_log.errors import StartupLogError
from sim.units import GIB

Value = float | int | str

_MOST_GIB = 2**20  # a pebibyte
_MOST_COUNT = 10**15


def _real(raw: str, least: float, most: float) -> float:
    value = float(raw.replace(",", "")) if len(raw) <= 40 else math.inf
    if not least <= value <= most:
        raise ValueError
    return value


def _count(raw: str) -> int:
    digits = raw.replace(",", "")
    if len(digits) > 16 or int(digits) not in range(_MOST_COUNT):
        raise ValueError
    return int(digits)


# What a group name of a wording ends with: how the text becomes a value, and what to call a value that cannot be.
_UNITS: dict[str, tuple[Callable[[str], Value], str]] = {
    "gib": (lambda raw: round(_real(raw, 0, _MOST_GIB) * GIB), "a size between 0 and 1,048,576 GiB"),
    # Differences of free memory may be negative: another process gave memory back meanwhile.
    "difference_gib": (lambda raw: round(_real(raw, -_MOST_GIB, _MOST_GIB) * GIB), "a size within 1,048,576 GiB"),
    "bytes": (_count, "a whole number of bytes below 10**15"),
    "count": (_count, "a whole number from 0 to 10**15"),
    "share": (lambda raw: _real(raw, 0, 2), "a share between 0 and 2"),
    "times": (lambda raw: _real(raw, 0, 1e12), "a number between 0 and 10**12"),
    "word": (lambda raw: raw.rstrip(".,;:)"), "a word"),
}


def value_of(raw: str, unit: str, what: str, place: str) -> Value:
    """Return the value of a printed number; raise StartupLogError naming place and quantity if it cannot be one."""
    convert, meaning = _UNITS[unit]
    try:
        return convert(raw.rstrip(".,"))
    except (ValueError, OverflowError):
        shown = raw if len(raw) <= 24 else f"{raw[:20]}… ({len(raw)} characters)"
        raise StartupLogError(f"{place}: {what.replace('_', ' ')} is {shown}, which is not {meaning}") from None
