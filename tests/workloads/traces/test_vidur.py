"""Vidur's CSV traces: what is read, and what is said of rows that are wrong."""

from pathlib import Path

import pytest

from workloads.errors import WorkloadError
from workloads.traces.open import open_trace
from workloads.traces.request import TraceRequest

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a trace may be written."""
    return tmp_path / "trace.csv"


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "0.0,374,44\n0.5,12,1\n",
        "\ufeff" + HEADER + "0.0,374,44\r\n0.5,12,1",
        "id,num_decode_tokens,arrived_at,num_prefill_tokens,note\na,44,0.0,374,x\nb,1,0.5,12,\n",
        HEADER + '"0.0", 374 ,44\n5e-1,+12,1\n',
    ],
    ids=["plain", "byte order mark", "other columns", "quotes and spaces"],
)
def test_rows_are_read_however_the_table_is_laid_out(path: Path, text: str) -> None:
    """Columns go by name; what else there is does not matter."""
    path.write_text(text, encoding="utf-8")
    trace = open_trace(path)
    assert list(trace) == [TraceRequest(2, 374, 44, 0.0), TraceRequest(3, 12, 1, 0.5)]
    assert trace.format.name == "vidur"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,1,1", ":3: arrived_at 'x' must be a time of at least 0"),
        ("nan,1,1", ":3: arrived_at 'nan' must be"),
        ("inf,1,1", ":3: arrived_at 'inf' must be"),
        ("-1,1,1", ":3: arrived_at '-1' must be"),
        ("1.5,1,1", ":3: 1.5 s is before the 2 s above it: times must ascend"),
        ("2,0,1", ":3: num_prefill_tokens '0' must be a whole number from 1 to 10,000,000"),
        ("2,1.5,1", ":3: num_prefill_tokens '1.5' must be a whole number"),
        ("2,,1", ":3: num_prefill_tokens '' must be a whole number"),
        ("2,1,-4", ":3: num_decode_tokens '-4' must be a whole number"),
        (f"2,1,{'9' * 5000}", ":3: num_decode_tokens '9"),
        ("2,1,10000001", ":3: num_decode_tokens '10000001' must be"),
        ("2,1", ":3: 2 cells, where 3 are expected"),
    ],
)
def test_a_bad_row_is_named_by_line_and_column(path: Path, row: str, message: str) -> None:
    """The rows above it are good, and come first."""
    path.write_text(f"{HEADER}2,1,1\n{row}\n", encoding="utf-8")
    lazily = iter(open_trace(path))
    assert next(lazily) == TraceRequest(2, 1, 1, 2.0)
    with pytest.raises(WorkloadError) as raised:
        next(lazily)
    assert str(raised.value).startswith(f"{path}{message}")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < len(str(path)) + 140


def test_a_wrong_header_is_answered_with_the_right_one(path: Path) -> None:
    """A column that is nearly right is named."""
    path.write_text("arrived,num_prefill_tokens,num_decode_tokens\n0,1,1\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match="column 'arrived_at' is missing"):
        list(open_trace(path))
