"""BLIS's TraceV2: a header and a table, prefixes beside inputs, sessions that grow where the header says so."""

from pathlib import Path

import pytest
from trace_requests import check_growth, opened, read, shared_tokens

from workloads.errors import WorkloadError

HEADER = "trace_version: 2\ntime_unit: us\nmode: generated\nwarm_up_requests: 0\n"
GROWS = HEADER + "session_context_growth: accumulate\n"
COLUMNS = (
    "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,streaming,"
    "input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,reason_ratio,model,deadline_us,"
    "server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,num_chunks,status,"
    "error_message,finish_reason,think_time_us\n"
)


def row(number: int, at_us: int, *, session: str = "s", tokens: str = "100,20", **keys: str) -> str:
    """Return a row; an answer takes two seconds."""
    usual = {"group": "", "length": "0", "server": "0", "status": "ok", "think": "0", "last": str(at_us + 2_000_000)}
    it = usual | keys
    return (
        f"{number},c,t,standard,{session},{number},{it['group']},{it['length']},true,{tokens},0,0,0,0,0,,0,"
        f"{it['server']},{at_us},{at_us},{at_us + 1},{it['last']},5,{it['status']},,stop,{it['think']}\n"
    )


def write(folder: Path, header: str | None, *rows: str) -> Path:
    """Write a trace's files, and return its table."""
    path = folder / "run.csv"
    path.write_text(COLUMNS + "".join(rows))
    if header is not None:
        (folder / "run.yaml").write_text(header)
    return path


def test_sessions_grow_where_the_header_says_so(tmp_path: Path) -> None:
    """Inputs are what a round adds; think times are recorded, or what passed since the answer."""
    path = write(
        tmp_path,
        GROWS,
        row(0, 1_000_000, group="g", length="50"),
        row(1, 9_000_000, group="g", length="50", tokens="30,10", think="4000000"),
        row(2, 20_000_000, group="g", length="50", tokens="30,10"),
        row(3, 20_000_000, session="other", group="g", length="50"),
    )
    requests = read(path)
    assert [one.prompt_tokens for one in requests] == [150, 200, 240, 150]
    check_growth(requests)
    assert [one.gap_s for one in requests] == [None, 4.0, 9.0, None]
    assert [one.api_s for one in requests] == [2.0] * 4
    assert shared_tokens(requests[0], requests[3]) == 50


@pytest.mark.parametrize("header", [HEADER, None])
def test_rounds_are_their_own_where_it_does_not(tmp_path: Path, header: str | None) -> None:
    """The server's count of tokens is better, unless it holds a prefix too."""
    last = row(2, 4_000_001, session="", tokens="5,0", server="9", group="g")
    trace = opened(write(tmp_path, header, row(0, 1, server="130"), row(1, 2_000_001), last))
    requests = list(trace)
    assert [one.prompt_tokens for one in requests] == [130, 100, 5]
    assert [one.session for one in requests] == ["s", "s", None]
    assert shared_tokens(requests[0], requests[1]) == 0
    assert any("whole prompt" in note for note in trace.notes)
    assert any("no header" in note for note in trace.notes) == (header is None)


def test_either_file_or_the_folder_is_the_trace(tmp_path: Path) -> None:
    """By name, or alone in a folder."""
    path = write(tmp_path, GROWS, row(0, 1), row(1, 9_000_000))
    assert read(path) == read(path.with_suffix(".yaml")) == read(tmp_path)
    assert {opened(one).format.name for one in (path, path.with_suffix(".yaml"), tmp_path)} == {"blis-trace"}
    path.unlink()
    with pytest.raises(WorkloadError, match=r"expected in run.csv, which is not there"):
        read(path.with_suffix(".yaml"))


def test_failures_are_left_out(tmp_path: Path) -> None:
    """Noted, whatever became of them."""
    trace = opened(write(tmp_path, HEADER, row(0, 1), row(1, 2, status="timeout"), row(2, 3, status="error")))
    assert len(list(trace)) == 1
    assert any("not ok are left out" in note for note in trace.notes)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(1, 5, tokens="-1,5"), "input_tokens '-1' must be a whole number"),
        (row(1, 5, tokens="0,5"), "prompt tokens 0 must be a whole number from 1"),
        (row(1, 5, tokens="100,x"), "output_tokens 'x' must be"),
        (row(1, 5, group="g", length="1e99"), "prefix_length '1e99' must be"),
        (row(1, 5, last="1"), "last_chunk_time_us 1 is before send_time_us 5"),
        ("1,2\n", "2 cells, where 28 are expected"),
    ],
)
def test_bad_rows_are_named_or_counted(tmp_path: Path, bad: str, message: str) -> None:
    """In the table's own lines."""
    path = write(tmp_path, HEADER, row(0, 1), bad, row(2, 9))
    for opened_as in (path, tmp_path):
        with pytest.raises(WorkloadError) as raised:
            read(opened_as)
        assert f"{path}:3: " in str(raised.value)
        assert message in str(raised.value)
    trace = opened(path, skip_bad_rows=True)
    assert len(list(trace)) == 2
    assert trace.bad_rows == 1


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("us\n", "ms\n", 1), "time_unit 'ms' must be 'us'"),
        (HEADER + "session_context_growth: Accumulate\n", "session_context_growth: invalid enum value"),
        ("trace_version: two\n", "trace_version: expected int"),
    ],
)
def test_headers_are_checked(tmp_path: Path, header: str, message: str) -> None:
    """A growth that nobody knows would be read as none."""
    with pytest.raises(WorkloadError, match=message):
        read(write(tmp_path, header, row(0, 1)))
