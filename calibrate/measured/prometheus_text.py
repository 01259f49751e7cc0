"""The text format of Prometheus: samples by name, with labels."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.errors import MeasurementError
from workloads.errors import WorkloadError
from workloads.traces.text_lines import byte_lines

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?[\d.]+))?(?:\s+#.*)?$")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One value."""

    name: str
    labels: Mapping[str, str]
    value: float


def looks_like(line: str) -> bool:
    """Say whether a line is one of this format."""
    match = _SAMPLE.match(line)
    return line.startswith(("# HELP ", "# TYPE ")) or (match is not None and _is_number(match[3]))


def samples(path: Path) -> Iterator[Sample]:
    """Yield the samples of a scrape.

    Raises MeasurementError with file and line for a line that is none.
    """
    try:
        for number, line in byte_lines(path):
            text = line.decode("utf-8", "replace").strip()
            if text.startswith("#"):
                continue
            match = _SAMPLE.match(text)
            if match is None or not _is_number(match[3]):
                raise MeasurementError(f"{path}: line {number} is no sample of Prometheus: {text[:60]!r}")
            yield Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3]))
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


Buckets = tuple[tuple[float, float], ...]  # upper bound and cumulative count


def range_of(buckets: Buckets, share: float) -> tuple[float, float] | None:
    """Return the bucket that holds a quantile: all that a histogram knows of it."""
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0 or math.isnan(total):
        return None
    below = 0.0
    for bound, count in buckets:
        if count >= share * total:
            return below, bound
        below = bound
    return below, math.inf
