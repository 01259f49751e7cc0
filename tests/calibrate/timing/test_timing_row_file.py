from pathlib import Path

import pytest

from calibrate.table_io import read_table
from calibrate.timing.points import Point
from calibrate.timing.row_file import open_rows
from sim.errors import CalibrationError

IDENTITY = {"model": "tiny (hidden 64)", "gpu": "L4", "dtype": "bf16"}
POINT = Point("copy", bytes=1024)
ROW = {**POINT.columns(), "gpu": "L4", "label": "measured", "time_s": 1.25e-6, "time_low_s": None, "repeats": 7}


def one_row(path: Path) -> None:
    """Write a file of one row."""
    with open_rows(path, IDENTITY, {"torch": "2"}) as file:
        file.append(ROW)


def test_a_file_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What is in the file is known by its key; new rows follow; each run notes its conditions at the top."""
    path = tmp_path / "new" / "rows.csv"
    one_row(path)
    with open_rows(path, IDENTITY, {"torch": "3"}) as file:
        assert file.done == {POINT.key}
        file.append(ROW | {"bytes": 2048})
    table = read_table(path)
    assert list(table.frame["bytes"]) == [1024, 2048]
    assert list(table.frame["time_s"]) == [1.25e-6, 1.25e-6]
    assert table.rejected == ()
    assert [line for line in table.comments if line.startswith("torch")] == ["torch: 2", "torch: 3"]


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path: Path, cut: int) -> None:
    """Whatever is missing of the last line, the rows before it stay and its point is timed again."""
    path = tmp_path / "rows.csv"
    one_row(path)
    with open_rows(path, IDENTITY, {}) as file:
        file.append(ROW | {"bytes": 2048})
    path.write_bytes(path.read_bytes()[:-cut])
    with open_rows(path, IDENTITY, {}) as file:
        assert file.done == {POINT.key}
        file.append(ROW | {"bytes": 4096})
    assert list(read_table(path).frame["bytes"]) == [1024, 4096]


def test_a_file_of_another_machine_or_model_is_refused_and_kept(tmp_path: Path) -> None:
    """Rows that do not belong together are never mixed; fresh starts anew."""
    path = tmp_path / "rows.csv"
    one_row(path)
    before = path.read_bytes()
    with (
        pytest.raises(CalibrationError, match=r"holds gpu .L4., not .H100.*--fresh"),
        open_rows(path, IDENTITY | {"gpu": "H100"}, {}),
    ):
        pass
    assert path.read_bytes() == before
    with open_rows(path, IDENTITY | {"gpu": "H100"}, {}, fresh=True) as file:
        assert file.done == set()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"operation,gpu,time_s\n", "did not write it"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b"# model: tiny (hidden 64)\n# gpu: L4\n# dtype: bf16\n", "no header"),
        (b"# model: tiny (hidden 64)\n# gpu: L4\n# dtype: bf16\na,b\n", ":4: columns are those of another version"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused_in_one_line(tmp_path: Path, content: bytes, fault: str) -> None:
    """The message names the file and what is wrong, and the file stays as it was."""
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(CalibrationError, match=fault) as caught, open_rows(path, IDENTITY, {}):
        pass
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_broken_row_is_named_by_line(tmp_path: Path) -> None:
    """A row with too few columns is an error with its line, not a guess."""
    path = tmp_path / "rows.csv"
    one_row(path)
    lines = path.read_bytes().count(b"\n")
    path.write_bytes(path.read_bytes() + b"copy,1\n")
    with pytest.raises(CalibrationError, match=f":{lines + 1}: has 2 columns"), open_rows(path, IDENTITY, {}):
        pass


def test_two_calibrations_never_write_to_one_file(tmp_path: Path) -> None:
    """The second is told, before it measures anything."""
    path = tmp_path / "rows.csv"
    with (
        open_rows(path, IDENTITY, {}),
        pytest.raises(CalibrationError, match="another calibration"),
        open_rows(path, IDENTITY, {}),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A file where a folder should be is an error that names the path."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CalibrationError, match="cannot be written"),
        open_rows(tmp_path / "file" / "rows.csv", IDENTITY, {}),
    ):
        pass
