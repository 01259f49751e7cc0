"""The measurement table on disk: what is written is read back, and comments stay."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.measurements import COLUMNS, LABELS, NAMES, NEEDS, OPERATIONS, TEXT
from calibrate.table_io import Table, read_comments, read_table, write_table
from sim.errors import MeasurementError

TIMES_S = st.floats(1e-8, 1e4)
NUMBERS = st.one_of(st.just(float("nan")), st.floats(0, 1e12))
COUNTS = st.one_of(st.just(float("nan")), st.integers(0, 10**15).map(float))
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=12)


@st.composite
def _rows(draw: st.DrawFn) -> dict[str, object]:
    operation = draw(st.sampled_from(sorted(OPERATIONS)))
    row: dict[str, object] = {
        column.name: draw({"text": WORDS, "count": COUNTS, "number": NUMBERS}[column.kind]) for column in COLUMNS
    }
    for name in NEEDS[operation]:
        row[name] = "prefill" if name in TEXT else 3.0
    times = {name: draw(TIMES_S) for name in ("time_s", "time_low_s", "time_high_s")}
    return row | times | {"operation": operation, "gpu": "L4, one", "label": draw(st.sampled_from(("", *LABELS)))}


@given(rows=st.lists(_rows(), min_size=1, max_size=5))
def test_a_table_reads_back_as_it_was_written(
    rows: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every number keeps its full value and every text its letters, commas and quotes included."""
    path = tmp_path_factory.mktemp("round") / "t.csv"
    frame = pd.DataFrame(rows, columns=list(NAMES))
    write_table(path, frame)
    again = read_table(path)
    assert again.rejected == ()
    for column in COLUMNS:
        written, read = frame[column.name].to_numpy(), again.frame[column.name].to_numpy()
        if column.kind == "text":
            assert list(read) == list(written)
        else:
            np.testing.assert_array_equal(read, written.astype(float))


def _launch(time_s: float = 3e-6) -> pd.DataFrame:
    return pd.DataFrame([{"operation": "launch", "gpu": "L4", "time_s": time_s, "note": "line one\nline\0two"}])


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_comments_stand_at_the_top_and_are_kept(tmp_path: Path, name: str) -> None:
    """A comment with a line break is still one line, and a zipped table reads like a plain one."""
    path = tmp_path / name
    write_table(path, _launch(), ("clocks 1980 MHz", "driver\n570"))
    assert read_comments(path) == ("clocks 1980 MHz", "driver 570")
    assert read_table(path).comments == ("clocks 1980 MHz", "driver 570")
    assert read_table(path).frame["note"].tolist() == ["line one line two"]
    raw = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    assert raw.startswith(b"# clocks 1980 MHz\n# driver 570\noperation,gpu,")


def test_columns_nothing_fills_are_left_out_and_read_back_empty(tmp_path: Path) -> None:
    """A narrow file still gives every column of the table, as text or float."""
    path = tmp_path / "t.csv"
    write_table(path, _launch())
    assert path.read_text().splitlines()[0] == "operation,gpu,time_s,note"
    frame = read_table(path).frame
    assert tuple(frame.columns) == NAMES
    assert frame["engine"].tolist() == [""]
    assert np.isnan(frame["tokens"]).all()


def test_lines_count_comments_and_the_header(tmp_path: Path) -> None:
    """The index of a row is its line in the file, as an editor shows it."""
    path = tmp_path / "t.csv"
    path.write_text("# a\n# b\noperation,gpu,time_s\nlaunch,L4,1e-6\n\nlaunch,L4,2e-6\n")
    assert read_table(path).frame.index.tolist() == [4, 6]


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    """A spreadsheet's idea of CSV reads the same."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfoperation,gpu,time_s\r\nlaunch,L4,1e-6\r\n")
    assert read_table(path).frame["time_s"].tolist() == [1e-6]


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.csv.zip"])
def test_a_suffix_no_table_has_is_refused(tmp_path: Path, name: str) -> None:
    """The file is not created."""
    with pytest.raises(MeasurementError, match=r"ends in .csv, .csv.gz, .parquet"):
        write_table(tmp_path / name, _launch())
    assert not list(tmp_path.iterdir())


def test_a_column_that_is_not_the_tables_is_not_written(tmp_path: Path) -> None:
    """The nearest name is given."""
    with pytest.raises(MeasurementError, match=r"unknown column 'time_ms' \(did you mean 'time_s'\?\)"):
        write_table(tmp_path / "t.csv", _launch().rename(columns={"time_s": "time_ms"}))


def test_a_folder_in_the_way_is_one_line(tmp_path: Path) -> None:
    """What cannot be written names the path and leaves no partial file."""
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(MeasurementError, match=r"t\.csv"):
        write_table(tmp_path / "t.csv", _launch())
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_parquet_needs_pyarrow_or_works(tmp_path: Path) -> None:
    """Without pyarrow one line says what to install; with it the table and its comments come back."""
    path = tmp_path / "t.parquet"
    if importlib.util.find_spec("pyarrow") is None:
        with pytest.raises(MeasurementError, match="pip install pyarrow"):
            write_table(path, _launch())
        path.write_bytes(b"PAR1....PAR1")
        with pytest.raises(MeasurementError, match="pip install pyarrow"):
            read_table(path)
        return
    write_table(path, _launch(), ("a comment",))
    table = read_table(path)
    assert isinstance(table, Table)
    assert table.comments == ("a comment",)
    assert table.frame["time_s"].tolist() == [3e-6]
