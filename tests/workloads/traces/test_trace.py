"""A trace as a load: its requests in order, again, faster, or only the first of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from workloads.errors import WorkloadError
from workloads.span import total_tokens
from workloads.traces import TraceRow, TraceTotals, read_trace

ROWS = [TraceRow(10.0, 100, 5), TraceRow(11.0, 200, 6), TraceRow(14.0, 300, 7)]
ANYWHERE = Path(__file__)  # any file: its rows are made up


def three(_: Path) -> Iterator[TraceRow]:
    """Yield three rows, two seconds apart on average."""
    yield from ROWS


def test_times_count_from_the_first_request() -> None:
    """Lengths are the rows', and no two requests share a token."""
    trace = read_trace(ANYWHERE, three)
    assert trace.totals == TraceTotals(3, 600, 18, 10.0, 14.0)
    requests = list(trace)
    assert [request.at_s for request in requests] == [0.0, 1.0, 4.0]
    assert [total_tokens(request.prompt.spans) for request in requests] == [100, 200, 300]
    assert [request.prompt.output.length for request in requests] == [5, 6, 7]
    assert len({request.prompt.spans[0].content for request in requests}) == 3
    assert {request.prompt.over_from for request in requests} == {0}


def test_a_repetition_follows_a_mean_gap_after_the_last_request() -> None:
    """4 s and another 2 s: the rate stays what it was. The contents of each round are new."""
    requests = list(read_trace(ANYWHERE, three, repeat=3))
    assert [request.at_s for request in requests] == [0.0, 1.0, 4.0, 6.0, 7.0, 10.0, 12.0, 13.0, 16.0]
    assert len({request.prompt.spans[0].content for request in requests}) == 9


def test_it_can_be_denser_and_cut_short() -> None:
    """The limit is of the rows read, before they are repeated."""
    trace = read_trace(ANYWHERE, three, repeat=2, rate_scale=2.0, limit=2)
    assert trace.totals.requests == 2
    assert [request.at_s for request in trace] == [0.0, 0.5, 1.0, 1.5]


def test_it_can_be_gone_through_again() -> None:
    """Every run of a scenario sends the same."""
    trace = read_trace(ANYWHERE, three, repeat=2)
    assert list(trace) == list(trace)


def test_one_request_is_a_trace_and_none_is_not() -> None:
    """One has no gaps, so it cannot be repeated."""
    assert [one.at_s for one in read_trace(ANYWHERE, three, limit=1)] == [0.0]
    with pytest.raises(WorkloadError, match="all requests arrive at once"):
        read_trace(ANYWHERE, three, limit=1, repeat=2)
    with pytest.raises(WorkloadError, match="a header and no requests"):
        read_trace(ANYWHERE, lambda _: iter(()))


def test_times_must_be_seconds() -> None:
    """Nanoseconds would leave the clock too coarse for a step."""
    with pytest.raises(WorkloadError, match=r"6e\+15 s from first to last .* arrivals are in seconds"):
        read_trace(ANYWHERE, three, rate_scale=1e-15)


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    """Else its results would be kept as those of what was read first."""
    path = tmp_path / "trace.csv"
    path.write_text("one", encoding="utf-8")
    trace = read_trace(path, three)
    path.write_text("two", encoding="utf-8")
    with pytest.raises(WorkloadError, match="has changed"):
        list(trace)


def test_rows_are_not_kept() -> None:
    """Of an endless file so much is read as the limit asks for."""

    def endless(_: Path) -> Iterator[TraceRow]:
        while True:
            yield ROWS[0]

    trace = read_trace(ANYWHERE, endless, limit=1000)
    assert next(iter(trace)).at_s == 0.0
    assert trace.totals.requests == 1000
