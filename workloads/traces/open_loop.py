"""A recorded trace as an open loop: its requests at their own times, whatever became of those before.

Which of them, in this order: those within a window of the trace's clock, of them a share (whole sessions where the
trace knows any), of them the first `limit`. The file is read anew each time round, row by row, and never held.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workloads.errors import WorkloadError
from workloads.recorded import RecordedRequest
from workloads.traces.content_spans import prompt_of
from workloads.traces.digest import trace_digest
from workloads.traces.format import Clock
from workloads.traces.open import OpenTrace, open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.request import MOST_SECONDS, TraceRequest
from workloads.traces.sampling import is_chosen
from workloads.traces.ticks import TickFinder, spread


@dataclass(frozen=True, slots=True)
class SendRules:
    """Which requests are sent, and when. Seconds; the window counts from the trace's first request."""

    repeat: int = 1  # so often in a row
    rate_scale: float = 1.0  # 2.0: twice as fast
    start_s: float = 0.0
    stop_s: float | None = None
    share: float = 1.0
    limit: int | None = None
    jitter_s: float = 0.0  # each request up to so much later, on the trace's own clock
    seed: int = 0  # of share and jitter


AS_RECORDED = SendRules()


class TraceTotals(NamedTuple):
    """One pass through what is sent of a trace."""

    requests: int
    prompt_tokens: int
    output_tokens: int
    first_s: float
    last_s: float
    sessions: int | None = None  # None: the trace knows none
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that was read through once. Times count from the first request sent.

    A repetition begins one mean gap after the last request of the one before, with contents of its own.
    """

    path: Path
    options: ReadOptions
    rules: SendRules
    totals: TraceTotals
    digest: str = ""  # of the file, when it was read
    format: str = ""
    notes: tuple[str, ...] = ()  # how it was read
    tick_s: float | None = None  # to which arrival times are rounded

    @property
    def round_s(self) -> float:
        """From the first request of one time round to that of the next, before `rate_scale`."""
        span_s = self.totals.last_s - self.totals.first_s
        return span_s + span_s / max(self.totals.requests - 1, 1)

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Yield the requests.

        Raises WorkloadError if the file is no longer what was read.
        """
        opened = open_trace(self.path, self.options)
        if trace_digest(opened.files) != self.digest:
            raise WorkloadError(f"{self.path}: has changed since it was first read")
        rules, each = self.rules, self.totals.requests
        timed = self._timed(opened)
        if rules.jitter_s:
            timed = spread(timed, rules.jitter_s, np.random.default_rng([rules.seed, 7]))
        for number, (at_s, request) in enumerate(timed):
            yield RecordedRequest(at_s / rules.rate_scale, prompt_of(request, number, number // each))

    def _timed(self, opened: OpenTrace) -> Iterator[tuple[float, TraceRequest]]:
        for turn in range(self.rules.repeat):
            start_s = turn * self.round_s - self.totals.first_s
            for at_s, request in _chosen(opened, self.rules):
                yield start_s + at_s, request


def read_trace(path: Path, options: ReadOptions = ReadOptions(), rules: SendRules = AS_RECORDED) -> Trace:
    """Read a file or folder once, as far as the rules need, and return it as a load.

    Raises WorkloadError for a row that is wrong, if there is none to send, or if their times make no load.
    """
    opened = open_trace(path, options)
    if opened.format.clock is not Clock.TRACE:
        when = "begin anew with each session" if opened.format.clock is Clock.SESSION else "are not told"
        title = opened.format.title
        raise WorkloadError(f"{path}: times {when} in {title}, so it cannot be sent as recorded; `replay` it")
    digest = trace_digest(opened.files)
    requests = prompt_tokens = output_tokens = 0
    first_s = last_s = 0.0
    sessions: set[str] = set()
    ticks = TickFinder()
    for at_s, request in _chosen(opened, rules):
        if not requests:
            first_s = at_s
        last_s = at_s
        requests += 1
        prompt_tokens += request.prompt_tokens
        output_tokens += request.output_tokens
        ticks.see(at_s)
        if request.session is not None:
            sessions.add(request.session)
    if not requests:
        raise WorkloadError(f"{path}: {_nothing(rules)}")
    totals = TraceTotals(
        requests, prompt_tokens, output_tokens, first_s, last_s, len(sessions) or None, opened.bad_rows
    )
    trace = Trace(
        path, replace(options, format=opened.format.name), rules, totals, digest, opened.format.name,
        tuple(opened.notes), ticks.tick_s,
    )  # fmt: skip
    if rules.repeat > 1 and not trace.round_s:
        raise WorkloadError(f"{path}: all requests arrive at once, so load.repeat would send everything at once")
    whole_s = trace.round_s * rules.repeat / rules.rate_scale
    if whole_s > MOST_SECONDS:
        raise WorkloadError(
            f"{path}: {whole_s:.3g} s from first to last request, more than {MOST_SECONDS:.0e}; arrivals are in seconds"
        )
    return trace


def _chosen(opened: OpenTrace, rules: SendRules) -> Iterator[tuple[float, TraceRequest]]:
    """Yield what is sent of a trace once, with its times on the trace's clock."""
    return islice(_within(opened, rules), rules.limit)


def _within(opened: OpenTrace, rules: SendRules) -> Iterator[tuple[float, TraceRequest]]:
    begin_s: float | None = None
    for request in opened:
        at_s = request.at_s
        if at_s is None:
            raise WorkloadError(f"{opened.path}:{request.row}: a request without a time; `replay` the trace instead")
        if begin_s is None:
            begin_s = at_s
        if rules.stop_s is not None and at_s - begin_s >= rules.stop_s:
            return
        if at_s - begin_s < rules.start_s:
            continue
        if rules.share < 1 and not is_chosen(_whose(request), rules.share, rules.seed):
            continue
        yield at_s, request


def _whose(request: TraceRequest) -> str:
    return f"row {request.file or ''} {request.row}" if request.session is None else request.session


def _nothing(rules: SendRules) -> str:
    window = "" if rules.stop_s is None and not rules.start_s else f" from {rules.start_s:g} s"
    window += "" if rules.stop_s is None else f" to {rules.stop_s:g} s"
    share = f" of a share of {rules.share:g}" if rules.share < 1 else ""
    return f"no requests{window}{share}"
