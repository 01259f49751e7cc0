"""How far predictions are from published figures: one relative error a cell, and their median."""

import math
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from sim.results.points import Row, by_sessions, number

COMPARED = ("ttft_p50_s", "ttft_p90_s", "ttft_p95_s", "ttft_p99_s", "requests_per_s")


class CellError(NamedTuple):
    """A published figure and its prediction in the metric's unit; `error` is relative, 0.1 is 10 % over."""

    sessions: float
    metric: str
    predicted: float
    published: float
    error: float


def cell_errors(points: Iterable[Row], published: Iterable[Row]) -> list[CellError]:
    """Return (predicted - published) / published for each published figure that has a prediction.

    Figures that are not positive, and predictions not known, make no cell: see `published_cells` for how many
    there should be. If a session count was simulated twice, the first point counts.
    """
    predictions = _by_count(points)
    cells = []
    for row in by_sessions(published):
        sessions = number(row, "sessions")
        for metric in COMPARED:
            theirs, ours = number(row, metric), number(predictions.get(sessions, {}), metric)
            if theirs > 0 and not math.isnan(ours):
                cells.append(CellError(sessions, metric, ours, theirs, (ours - theirs) / theirs))
    return cells


def median_error(points: Iterable[Row], published: Iterable[Row]) -> float | None:
    """Return the median of the errors' sizes (0.1 is 10 %), or None if nothing can be compared."""
    sizes = [abs(cell.error) for cell in cell_errors(points, published)]
    return median(sizes) if sizes else None


def published_cells(published: Iterable[Row]) -> int:
    """Return how many figures there are to predict."""
    return sum(number(row, metric) > 0 for row in by_sessions(published) for metric in COMPARED)


def _by_count(points: Iterable[Row]) -> dict[float, Row]:
    """Return the first row of each session count."""
    rows: dict[float, Row] = {}
    for row in by_sessions(points):
        rows.setdefault(number(row, "sessions"), row)
    return rows
