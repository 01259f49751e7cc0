"""A recorded trace as a load: its requests one after another, again and again if asked, faster or slower.

Rows have lengths and no content, so no two requests share a prefix; the file is read anew each time round, and never
held in memory.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from workloads.errors import WorkloadError
from workloads.recorded import RecordedRequest
from workloads.session import Prompt
from workloads.span import Span
from workloads.traces.row import TraceRow

MOST_SECONDS = 1e8  # three years; beyond, a clock in seconds no longer tells steps apart


class TraceTotals(NamedTuple):
    """One pass through a trace."""

    requests: int
    prompt_tokens: int
    output_tokens: int
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Trace:
    """The first `limit` rows of a file, `repeat` times in a row, arrivals `rate_scale` times as dense.

    Times count from the first request. A repetition begins one mean gap after the last request of the one before.
    """

    path: Path
    rows: Callable[[Path], Iterator[TraceRow]]  # of its format
    totals: TraceTotals
    repeat: int = 1
    rate_scale: float = 1.0
    limit: int | None = None
    digest: str = ""  # of the file, when it was read

    @property
    def round_s(self) -> float:
        """From the first request of one time round to that of the next, before `rate_scale`."""
        span_s = self.totals.last_s - self.totals.first_s
        return span_s + span_s / max(self.totals.requests - 1, 1)

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Yield the requests; all of a request's tokens are its own.

        Raises WorkloadError if the file is no longer what was read.
        """
        if file_digest(self.path) != self.digest:
            raise WorkloadError(f"{self.path}: has changed since it was first read")
        totals, round_s = self.totals, self.round_s
        number = 0
        for turn in range(self.repeat):
            start_s = turn * round_s - totals.first_s
            for at_s, prompt_tokens, output_tokens in islice(self.rows(self.path), self.limit):
                prompt = Prompt((Span(number, 0, prompt_tokens),), Span(number, prompt_tokens, output_tokens), 0)
                yield RecordedRequest((start_s + at_s) / self.rate_scale, prompt)
                number += 1


def read_trace(
    path: Path,
    rows: Callable[[Path], Iterator[TraceRow]],
    *,
    repeat: int = 1,
    rate_scale: float = 1.0,
    limit: int | None = None,
) -> Trace:
    """Read a file once, to the end or the limit, and return it as a load.

    Raises WorkloadError for a row that is wrong, if there is none, or if their times make no load.
    """
    digest = file_digest(path)
    requests = prompt_tokens = output_tokens = 0
    first_s = last_s = 0.0
    for at_s, prompt, output in islice(rows(path), limit):
        if not requests:
            first_s = at_s
        last_s = at_s
        requests += 1
        prompt_tokens += prompt
        output_tokens += output
    if not requests:
        raise WorkloadError(f"{path}: a header and no requests")
    totals = TraceTotals(requests, prompt_tokens, output_tokens, first_s, last_s)
    trace = Trace(path, rows, totals, repeat, rate_scale, limit, digest)
    if repeat > 1 and not trace.round_s:
        raise WorkloadError(f"{path}: all requests arrive at once, so load.repeat would send everything at once")
    whole_s = trace.round_s * repeat / rate_scale
    if whole_s > MOST_SECONDS:
        raise WorkloadError(
            f"{path}: {whole_s:.3g} s from first to last request, more than {MOST_SECONDS:.0e}; arrivals are in seconds"
        )
    return trace


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises WorkloadError if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from None
