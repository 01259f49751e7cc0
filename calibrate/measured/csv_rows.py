"""The rows of a CSV with their line numbers."""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from sim.errors import MeasurementError
from workloads.errors import WorkloadError
from workloads.traces.text_lines import document

MOST_BYTES = 64 * 2**20  # a result's table has some kilobytes a load point


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row that is not empty.

    Raises MeasurementError for a file that cannot be read.
    """
    try:
        text = document(path, MOST_BYTES).decode()
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None
    except UnicodeDecodeError:
        raise MeasurementError(f"{path}: this is no UTF-8 text") from None
    before = csv.field_size_limit(min(MOST_BYTES, sys.maxsize))
    try:
        reader = csv.reader(text.splitlines())
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise MeasurementError(f"{path}: line {reader.line_num}: {error}") from None
    finally:
        csv.field_size_limit(before)
