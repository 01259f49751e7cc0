"""The requests of conv2000 and conv500: rows of arrival, prompt and output, from the shared files or drawn alike.

The shared files hold the first rows of a public conversation trace with Poisson arrivals of 6 requests a second.
Where they are missing, lognormal lengths of the same median and spread stand in, and results say so.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workloads import Prompt, RecordedRequest, Span

REQUESTS_PER_S = 6.0
MOST_TOKENS = 4096  # prompt and output together, as in the files


class Row(NamedTuple):
    """One request of a trace."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int


def trace_file(data: Path, name: str) -> Path:
    """Return where the shared trace of this name is, if it is there."""
    return data / "bench" / f"{name}.csv"


def trace_rows(data: Path, name: str, count: int) -> list[Row]:
    """Return the first rows of a trace, or as many drawn ones where there is no such file."""
    path = trace_file(data, name)
    if not path.exists():
        return drawn_rows(count)
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [Row(float(at), int(prompt), int(output)) for at, prompt, output in list(csv.reader(lines))[1:]]
    return rows[:count]


def drawn_rows(count: int) -> list[Row]:
    """Return seeded rows that resemble the files': medians 1,024 and 377 tokens, sigma 0.87 of the logarithm."""
    rng = np.random.default_rng(0)
    arrivals = np.cumsum(rng.exponential(1 / REQUESTS_PER_S, count))
    rows: list[Row] = []
    for arrival_s in arrivals.tolist():
        prompt = min(max(round(1024 * float(np.exp(0.87 * rng.standard_normal()))), 2), MOST_TOKENS - 1000)
        output = min(max(round(377 * float(np.exp(0.87 * rng.standard_normal()))), 12), 1000)
        rows.append(Row(arrival_s, prompt, output))
    return rows


def repeated(rows: Sequence[Row], times: int) -> Iterator[Row]:
    """Yield the rows over and over, each round one mean gap after the last arrival of the round before."""
    period_s = rows[-1].arrival_s + 1 / REQUESTS_PER_S
    for round_number in range(times):
        for row in rows:
            yield row._replace(arrival_s=row.arrival_s + round_number * period_s)


def as_requests(rows: Iterable[Row]) -> Iterator[RecordedRequest]:
    """Yield requests that share nothing with each other."""
    for number, (arrival_s, prompt, output) in enumerate(rows):
        name = f"conversation {number}"
        yield RecordedRequest(arrival_s, Prompt((Span(name, 0, prompt),), Span(name, prompt, output), over_from=0))
