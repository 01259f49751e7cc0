"""A trace as an open loop: which of its requests are sent, when, again, faster, and out of their ticks."""

import json
from pathlib import Path

import pytest

from workloads.errors import WorkloadError
from workloads.span import total_tokens
from workloads.traces.open_loop import SendRules, Trace, read_trace
from workloads.traces.reading import ReadOptions

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return a trace of three requests, two seconds apart on average."""
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "10,100,5\n11,200,6\n14,300,7\n", encoding="utf-8")
    return path


def ticking(path: Path, ticks: int = 20, each: int = 10) -> Path:
    """Write Mooncake's format with ten requests to a stamp every 3 s, give or take a millisecond."""
    rows = [
        {"timestamp": 3000 * tick + tick % 2, "input_length": 700, "output_length": 5, "hash_ids": [0, 1 + n + tick]}
        for tick in range(ticks)
        for n in range(each)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sent(path: Path, **rules: object) -> Trace:
    """Return the trace under some rules."""
    return read_trace(path, rules=SendRules(**rules))  # type: ignore[arg-type]  # named in each test


def test_times_count_from_the_first_request(three: Path) -> None:
    """Lengths are the rows', and no two requests share a token."""
    trace = sent(three)
    assert trace.totals[:5] == (3, 600, 18, 10.0, 14.0)
    assert (trace.format, trace.tick_s, trace.totals.sessions) == ("vidur", None, None)
    requests = list(trace)
    assert [request.at_s for request in requests] == [0.0, 1.0, 4.0]
    assert [total_tokens(request.prompt.spans) for request in requests] == [100, 200, 300]
    assert [request.prompt.output.length for request in requests] == [5, 6, 7]
    assert len({request.prompt.spans[0].content for request in requests}) == 3
    assert {request.prompt.over_from for request in requests} == {0}
    assert list(trace) == requests


def test_a_repetition_follows_a_mean_gap_after_the_last_request(three: Path) -> None:
    """4 s and another 2 s: the rate stays what it was. The contents of each round are new."""
    requests = list(sent(three, repeat=3))
    assert [request.at_s for request in requests] == [0.0, 1.0, 4.0, 6.0, 7.0, 10.0, 12.0, 13.0, 16.0]
    assert len({request.prompt.spans[0].content for request in requests}) == 9


def test_it_can_be_denser_and_cut_short(three: Path) -> None:
    """The limit is of the rows sent, before they are repeated."""
    trace = sent(three, repeat=2, rate_scale=2.0, limit=2)
    assert trace.totals.requests == 2
    assert [request.at_s for request in trace] == [0.0, 0.5, 1.0, 1.5]
    assert [one.at_s for one in sent(three, limit=1)] == [0.0]
    with pytest.raises(WorkloadError, match="all requests arrive at once"):
        sent(three, limit=1, repeat=2)


def test_a_window_comes_before_the_limit(three: Path) -> None:
    """Seconds from the trace's first request; its start is in it, its end is not. Times count from who is sent."""
    assert [one.prompt.output.length for one in sent(three, start_s=1.0)] == [6, 7]
    assert [one.at_s for one in sent(three, start_s=1.0)] == [0.0, 3.0]
    assert [one.prompt.output.length for one in sent(three, start_s=1.0, limit=1)] == [6]
    assert [one.prompt.output.length for one in sent(three, stop_s=4.0)] == [5, 6]
    with pytest.raises(WorkloadError, match=r"trace\.csv: no requests from 1.5 s to 3 s"):
        sent(three, start_s=1.5, stop_s=3.0)


def test_a_share_is_the_same_every_time_and_grows_with_itself(tmp_path: Path) -> None:
    """Of 200 requests about so many; a larger share holds the smaller one; another seed takes others."""
    path = ticking(tmp_path / "t.jsonl")
    tenth, half = sent(path, share=0.1), sent(path, share=0.5)
    assert 8 <= tenth.totals.requests <= 40
    assert 75 <= half.totals.requests <= 125
    assert list(half) == list(sent(path, share=0.5))
    assert half.totals != sent(path, share=0.5, seed=1).totals
    with pytest.raises(WorkloadError, match="no requests of a share of 1e-09"):
        sent(path, share=1e-9)


def test_a_coarse_clock_is_noticed_and_its_bursts_are_spread_when_asked(tmp_path: Path) -> None:
    """Each request up to a tick later, by ascending time, each in its tick; another seed spreads otherwise."""
    path = ticking(tmp_path / "t.jsonl")
    assert sent(path).tick_s == pytest.approx(3.0, abs=0.002)
    trace = sent(path, jitter_s=3.0)
    times = [one.at_s for one in trace]
    assert times == sorted(times)
    assert len(set(times)) == 200
    ticks = [int(at_s // 3.0005) for at_s in times]
    assert [ticks.count(tick) for tick in range(20)] == pytest.approx([10] * 20, abs=1)
    assert times == [one.at_s for one in trace]
    assert times != [one.at_s for one in sent(path, jitter_s=3.0, seed=1)]
    assert sorted(map(repr, (one.prompt.spans for one in trace))) == sorted(
        map(repr, (one.prompt.spans for one in sent(path)))
    )


def test_equal_ids_are_equal_content_within_a_round(tmp_path: Path) -> None:
    """The first block is everybody's; the second round has its own."""
    path = tmp_path / "t.jsonl"
    rows = [[0, 1], [0, 2], [0, 1]]
    text = [
        json.dumps({"timestamp": 1000 * n, "input_length": 700, "output_length": 1, "hash_ids": ids})
        for n, ids in enumerate(rows)
    ]
    path.write_text("\n".join(text), encoding="utf-8")
    first, second, third, again, *_ = (one.prompt for one in sent(path, repeat=2))
    assert first.spans == third.spans
    assert first.output.content != third.output.content
    assert first.spans[0].content == second.spans[0].content
    assert first.spans != second.spans
    assert again.spans[0].content != first.spans[0].content


def test_times_must_be_seconds(three: Path) -> None:
    """Nanoseconds would leave the clock too coarse for a step."""
    with pytest.raises(WorkloadError, match=r"6e\+15 s from first to last .* arrivals are in seconds"):
        sent(three, rate_scale=1e-15)


def test_a_file_that_changed_meanwhile_is_refused(three: Path) -> None:
    """Else its results would be kept as those of what was read first."""
    trace = sent(three)
    three.write_text(HEADER + "10,100,5\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match="has changed"):
        list(trace)


def test_what_has_no_clock_of_its_own_is_refused(tmp_path: Path) -> None:
    """Sessions that each begin at 0, and rows without a time."""
    path = tmp_path / "session.json"
    path.write_text('{"id": "a", "requests": [{"type": "s", "t": 0, "in": 9, "out": 1}]}', encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"times begin anew with each session in WEKA .*`replay` it"):
        sent(path)
    path = tmp_path / "rows.jsonl"
    rows = [{"session_id": "a", "input_length": 9, "output_length": 1, "timestamp": 0}]
    rows += [{"session_id": "a", "input_length": 9, "output_length": 1, "delay": 5}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"rows\.jsonl:2: a request without a time; `replay`"):
        sent(path)


def test_bad_rows_are_skipped_and_counted_when_asked(three: Path) -> None:
    """And else refused."""
    three.write_text(HEADER + "10,100,5\n11,none,6\n14,300,7\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"trace\.csv:3: num_prefill_tokens 'none'"):
        sent(three)
    trace = read_trace(three, ReadOptions(skip_bad_rows=True))
    assert (trace.totals.requests, trace.totals.bad_rows) == (2, 1)
