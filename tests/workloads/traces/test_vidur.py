"""Vidur's CSV traces: what is read, how lazily, and what is said of rows that are wrong."""

from pathlib import Path

import pytest

from workloads.errors import WorkloadError
from workloads.traces import TraceRow
from workloads.traces.vidur import rows

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a trace may be written."""
    return tmp_path / "trace.csv"


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "0.0,374,44\n0.5,12,1\n",
        HEADER + "0.0,374,44\n\n0.5,12,1\n\n",
        "\ufeff" + HEADER + "0.0,374,44\r\n0.5,12,1",
        "id,num_decode_tokens,arrived_at,num_prefill_tokens,note\na,44,0.0,374,x\nb,1,0.5,12\n",
        HEADER + '"0.0", 374 ,44\n5e-1,+12,1\n',
    ],
    ids=["plain", "blank lines", "byte order mark", "other columns", "quotes and spaces"],
)
def test_rows_are_read_however_the_table_is_laid_out(path: Path, text: str) -> None:
    """Columns go by name; what else there is does not matter."""
    path.write_text(text, encoding="utf-8")
    assert list(rows(path)) == [TraceRow(0.0, 374, 44), TraceRow(0.5, 12, 1)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,1,1", ":3: arrived_at 'x' must be a finite number of seconds of at least 0"),
        ("nan,1,1", ":3: arrived_at 'nan' must be a finite"),
        ("inf,1,1", ":3: arrived_at 'inf' must be a finite"),
        ("-1,1,1", ":3: arrived_at '-1' must be a finite"),
        ("1.5,1,1", ":3: arrived_at 1.5 is before the 2 of the row above: times must ascend"),
        ("2,0,1", ":3: num_prefill_tokens '0' must be a whole number from 1 to 10,000,000"),
        ("2,1.5,1", ":3: num_prefill_tokens '1.5' must be a whole number"),
        ("2,,1", ":3: num_prefill_tokens '' must be a whole number"),
        ("2,1,-4", ":3: num_decode_tokens '-4' must be a whole number"),
        (f"2,1,{'9' * 5000}", ":3: num_decode_tokens '9"),
        ("2,1,10000001", ":3: num_decode_tokens '10000001' must be"),
        ("2,1", ":3: 2 cells, where the header has 3"),
        ('2,"1,1\n', ":4: unexpected end of data"),
    ],
)
def test_a_bad_row_is_named_by_line_and_column(path: Path, row: str, message: str) -> None:
    """The rows above it are good, and come first."""
    path.write_text(f"{HEADER}2,1,1\n{row}\n", encoding="utf-8")
    lazily = rows(path)
    assert next(lazily) == TraceRow(2.0, 1, 1)
    with pytest.raises(WorkloadError) as raised:
        next(lazily)
    assert str(raised.value).startswith(f"{path}{message}")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < len(str(path)) + 140


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "column 'arrived_at' is missing; a header of arrived_at, num_prefill_tokens, num_decode_tokens is needed"),
        (
            "arrived_at,num_prefill_tokens,num_decoded_tokens",
            "'num_decode_tokens' is missing ('num_decoded_tokens'",
        ),
        ("0.0,374,44", "column 'arrived_at' is missing; a header of"),
    ],
)
def test_a_wrong_header_is_answered_with_the_right_one(path: Path, header: str, message: str) -> None:
    """A column that is nearly right is named."""
    path.write_text(header, encoding="utf-8")
    with pytest.raises(WorkloadError) as raised:
        next(rows(path))
    assert f"{path}:1: " in str(raised.value)
    assert message in str(raised.value)


def test_what_is_no_text_or_no_file_is_said_in_one_line(path: Path) -> None:
    """Bytes of something else, a missing file, a folder."""
    path.write_bytes(HEADER.encode() + b"0.0,1,1\n\xff\xfe\n")
    with pytest.raises(WorkloadError, match=r"trace\.csv:\d: this is no UTF-8 text"):
        list(rows(path))
    with pytest.raises(WorkloadError, match=r"nowhere\.csv: No such file"):
        list(rows(path.with_name("nowhere.csv")))
    with pytest.raises(WorkloadError, match="Is a directory"):
        list(rows(path.parent))
