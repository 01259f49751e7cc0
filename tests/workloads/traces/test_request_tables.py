"""Tables of requests, lengths alone: Azure's, BurstGPT's and Vidur's CSV."""

import csv
import gzip
from pathlib import Path

import pytest
from trace_requests import SAMPLES, needs_samples, opened, read

from workloads.errors import WorkloadError
from workloads.traces.timestamps import epoch_s

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
BURST_3 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a trace may be written."""
    return tmp_path / "trace.csv"


@needs_samples
@pytest.mark.parametrize("kind", ["code", "conv"])
def test_azure_sample_is_read_to_the_token(kind: str) -> None:
    """Counted by the csv module alone."""
    (sample,) = (SAMPLES / "azure2023").glob(f"*_{kind}_*.csv")
    with sample.open() as file:
        rows = list(csv.DictReader(file))
    requests = read(sample)
    assert opened(sample).format.name == "azure"
    assert [one.prompt_tokens for one in requests] == [int(row["ContextTokens"]) for row in rows]
    assert [one.output_tokens for one in requests] == [int(row["GeneratedTokens"]) for row in rows]
    assert all(one.content is None and one.session is None for one in requests)


@needs_samples
def test_azure_and_vidur_tell_the_same_requests() -> None:
    """Vidur's trace was made from Azure's: the same rows, times from the first."""
    azure = read(next((SAMPLES / "azure2023").glob("*_code_*.csv")), limit=1500)
    vidur = read(next((SAMPLES / "vidur").glob("*.csv")))
    assert [one[1:3] for one in azure] == [one[1:3] for one in vidur]
    first_s = azure[0].at_s or 0.0
    assert [(one.at_s or 0.0) - first_s for one in azure] == pytest.approx([one.at_s for one in vidur], abs=2e-3)


@needs_samples
def test_burstgpt_sample_is_read() -> None:
    """Three rows, quoted in public documentation."""
    requests = read(SAMPLES / "format_examples" / "burstgpt_v1_rows.csv")
    assert [(one.at_s, one.prompt_tokens, one.output_tokens) for one in requests] == [
        (5, 472, 18),
        (45, 1087, 230),
        (118, 417, 276),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-16 18:17:03.9799600", 1700158623.97996),
        ("2024-05-10 00:00:00.009930+00:00", 1715299200.00993),
        ("2024-05-10 00:00:01+00:00", 1715299201.0),
        ("2024-05-10T02:00:01+02:00", 1715299201.0),
        ("2024-05-10T00:00:01Z", 1715299201.0),
        ("2024-13-10 00:00:01", None),
        ("1024-05-10 00:00:01", None),
        ("yesterday", None),
        ("", None),
        ("9" * 1000, None),
    ],
)
def test_times_have_any_number_of_digits_and_a_zone_or_none(text: str, seconds: float | None) -> None:
    """Azure writes seven digits in 2023, six and a zone in 2024."""
    assert epoch_s(text) == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


def test_azure_with_images_and_empty_answers_is_noted(path: Path) -> None:
    """The 2025 files have one more column; no answer is shorter than a token."""
    path.write_text("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00.1+00:00,2,900,0\n")
    trace = opened(path)
    (request,) = trace
    assert request[1:3] == (900, 1)
    assert any("images" in note for note in trace.notes)
    assert any("count as 1" in note for note in trace.notes)


def test_burstgpt_file_3_has_sessions_and_leaves_failures_out(path: Path) -> None:
    """Its clock does not begin at 0, and API rows have no session."""
    path.write_text(
        BURST_3
        + "19440110,7,12.5,GPT-4,100,20,120,Conversation log\n"
        + "19440120,7,3,GPT-4,100,0,100,Conversation log\n"
        + "19440160,7,2,GPT-4,150,30,180,Conversation log\n"
        + "19440161,,1,ChatGPT,10,5,15,API log\n"
    )
    trace = opened(path)
    requests = list(trace)
    assert [one.row for one in requests] == [2, 4, 5]
    assert [one.session for one in requests] == ["7", "7", None]
    assert requests[1].gap_s == pytest.approx(160 - 110 - 12.5)
    assert requests[0].api_s == 12.5
    assert "1 of 4 requests failed" in trace.notes


@pytest.mark.parametrize("header", [AZURE, VIDUR])
def test_lengths_alone_are_said_to_be_so(path: Path, header: str) -> None:
    """Nobody can tell hits from lengths."""
    path.write_text(header + ("2023-11-16 18:17:03.97," if header is AZURE else "0.5,") + "10,5\n")
    trace = opened(path)
    assert len(list(trace)) == 1
    assert any("no hits can be known" in note for note in trace.notes)


def test_a_packed_table_is_read(tmp_path: Path) -> None:
    """Gzip goes by its first bytes."""
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress((VIDUR + "0.5,10,5\n").encode()))
    assert read(path)[0][1:4] == (10, 5, 0.5)


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (AZURE, "soon,10,5", ":2: TIMESTAMP 'soon' must be a time such as"),
        (AZURE, "2023-11-16 18:17:03.97,-1,5", ":2: ContextTokens '-1' must be a whole number"),
        (AZURE, "2023-11-16 18:17:03.97,1e15,5", ":2: ContextTokens '1e15' must be"),
        (AZURE, "2023-11-16 18:17:03.97,10", ":2: 2 cells, where 3 are expected"),
        (AZURE, "2023-11-16 18:17:03.97,nan,5", ":2: ContextTokens 'nan' must be"),
        (BURST, "x,GPT-4,10,5,15,API log", ":2: Timestamp 'x' must be a time"),
        (BURST, "nan,GPT-4,10,5,15,API log", ":2: Timestamp 'nan' must be a time"),
        (BURST, "5,GPT-4,0,5,15,API log", ":2: Request tokens '0' must be a whole number from 1"),
        (BURST_3, "5,1,soon,GPT-4,10,5,15,API log", ":2: Elapsed time 'soon' must be a time"),
        (VIDUR, "inf,10,5", ":2: arrived_at 'inf' must be a time"),
        (VIDUR, "0.5,10,0", ":2: num_decode_tokens '0' must be a whole number from 1"),
        (VIDUR, "0.5,10,\n", ":2: num_decode_tokens '' must be"),
    ],
)
def test_a_bad_row_is_named(path: Path, header: str, row: str, message: str) -> None:
    """File, row, column, value and rule; and it is counted where that is asked."""
    good = "2023-11-16 18:17:04,10,5" if header is AZURE else "9,10,5" if header is VIDUR else None
    good = good or ("9,GPT-4,10,5,15,API log" if header is BURST else "9,1,1,GPT-4,10,5,15,API log")
    path.write_text(f"{header}{row}\n{good}\n")
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert f"{path}{message}" in str(raised.value)
    trace = opened(path, skip_bad_rows=True)
    assert len(list(trace)) == 1
    assert trace.bad_rows == 1


def test_times_that_go_back_are_refused(path: Path) -> None:
    """A file sorted by something else is no load."""
    path.write_text(AZURE + "2023-11-16 18:17:03.98,1,1\n2023-11-16 18:17:03.97,1,1\n")
    with pytest.raises(WorkloadError, match=r":3: .*times must ascend"):
        read(path)


@pytest.mark.parametrize("last", ["45,ChatGPT,1087,2", "45,ChatGPT,1087,230,131"])
def test_a_row_cut_short_is_not_taken_for_a_shorter_number(path: Path, last: str) -> None:
    """Columns nobody needs come after those that are: a cell that is there may still be a part of one."""
    path.write_text(BURST + "5,ChatGPT,472,18,490,Conversation log\n" + last)
    with pytest.raises(WorkloadError, match=r":3: . cells, where 6 are expected"):
        read(path)


def test_burstgpt_failures_may_have_no_prompt(path: Path) -> None:
    """They are left out, whatever they say of their prompt."""
    path.write_text(BURST + "5,GPT-4,0,0,0,API log\n6,GPT-4,10,5,15,API log\n7,GPT-4,0,5,5,API log\n")
    with pytest.raises(WorkloadError, match=":4: Request tokens '0' must be"):
        read(path)
    assert [one.row for one in opened(path, skip_bad_rows=True)] == [3]
