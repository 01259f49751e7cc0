"""Results of load tests from files and folders, each recognised by what it holds."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from calibrate.measured import vllm_bench
from calibrate.measured.json_values import json_values
from calibrate.measured.run import MeasuredRun
from sim.errors import MeasurementError

Recognise = Callable[[dict[str, Any]], bool]
Read = Callable[[Path, str, dict[str, Any]], MeasuredRun]

ROWS: tuple[tuple[Recognise, Read], ...] = ((vllm_bench.recognises, vllm_bench.read),)


def read_measured(paths: Sequence[Path]) -> list[MeasuredRun]:
    """Return the load points of files and folders, in their order.

    Raises MeasurementError with file and place for what cannot be read, and for what is no load test.
    """
    return [run for path in paths for run in _of_file(path)]


def _of_file(path: Path) -> Iterator[MeasuredRun]:
    for place, value in json_values(path):
        items = value if isinstance(value, list) else [value]
        for number, item in enumerate(items, 1):
            yield _of_value(path, f"{place} item {number}".strip() if isinstance(value, list) else place, item)


def _of_value(path: Path, place: str, value: Any) -> MeasuredRun:
    if isinstance(value, dict):
        for recognises, read in ROWS:
            if recognises(value):
                return read(path, place, value)
    raise MeasurementError(f"{path}: {place or 'it'} is no result of a load test that is known here")
