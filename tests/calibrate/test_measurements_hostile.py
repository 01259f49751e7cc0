"""Broken files are one clear line; broken rows are named and the rest is kept."""

import gzip
import re
from pathlib import Path

import pytest

from calibrate.table_io import read_table
from sim.errors import MeasurementError

HEAD = b"operation,gpu,tokens,out_features,in_features,time_s,label\n"
GOOD = b"gemm,L4,8,512,512,1e-5,measured\n"

FILES = {
    "empty": (b"", "the file is empty"),
    "blank": (b"\n  \n", "the file is empty"),
    "only comments": (b"# a\n# b\n", "no header after 2 comment lines"),
    "binary": (HEAD + b"gemm,\0\1\2\n", "line 2: a NUL byte"),
    "utf-16": (HEAD.decode().encode("utf-16"), "NUL byte"),
    "latin-1": (HEAD + GOOD + b"gemm,\xe9,8,1,1,1,\n", "line 3: not UTF-8"),
    "a very long line": (HEAD + b"x" * 10_000_000 + b"\n", "line 2: longer than 1,000,000 characters"),
    "a very long header": (b"x" * 10_000_000, "line 1: longer than"),
    "a long field": (HEAD + b"x" * 200_000 + b",L4,8,1,1,1,\n", "line 2: field larger than field limit"),
    "header twice": (b"operation,gpu,time_s,gpu\n", "line 1: column 'gpu' appears twice"),
    "nameless column": (b"operation,gpu,time_s,\n", "line 1: column 4 of the header has no name"),
    "unknown column": (b"# c\noperation,gpu,time_ms\n", r"line 2: unknown column 'time_ms' \(did you mean 'time_s'"),
    "missing column": (b"operation,time_s\n", "line 1: column 'gpu' is missing"),
    "open quote": (HEAD + b'"gemm,L4,8,512,512,1e-5,measured\n', "line 2: unexpected end of data"),
    "broken gzip": (gzip.compress(HEAD + GOOD * 99)[:60], "broken gzip file"),
    "gzip in name only": (b"\x1f\x8bnot a gzip", "broken gzip file"),
}


@pytest.mark.parametrize(("data", "reason"), FILES.values(), ids=FILES.keys())
def test_a_malformed_file_is_one_line(tmp_path: Path, data: bytes, reason: str) -> None:
    """It names the file, and the line where there is one, at a length a terminal bears."""
    path = tmp_path / "bad.csv"
    path.write_bytes(data)
    with pytest.raises(MeasurementError, match=reason) as caught:
        read_table(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 200


def test_a_missing_file_and_a_folder_are_one_line(tmp_path: Path) -> None:
    """Neither is a traceback."""
    with pytest.raises(MeasurementError, match="No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(MeasurementError, match="Is a directory"):
        read_table(tmp_path)


ROWS = {
    "zero": (b"gemm,L4,8,512,512,0,measured", "time_s '0.0' is not above zero"),
    "negative": (b"gemm,L4,8,512,512,-1e-5,measured", "time_s '-1e-5' is negative"),
    "nan": (b"gemm,L4,8,512,512,nan,measured", "time_s 'nan' is not a finite number"),
    "infinite": (b"gemm,L4,8,512,512,inf,measured", "time_s 'inf' is not a finite number"),
    "too large to be a float": (b"gemm,L4,8,512,512,1e999,measured", "time_s '1e999' is not a finite number"),
    "words": (b"gemm,L4,8,512,512,fast,measured", "time_s 'fast' is not a finite number"),
    "truth": (b"gemm,L4,8,512,512,True,measured", "time_s 'True' is not a finite number"),
    "absent": (b"gemm,L4,8,512,512,,measured", "time_s is empty"),
    "milliseconds as seconds": (b"gemm,L4,8,512,512,20000,measured", "longer than 10000 s: wrong unit"),
    "seconds as nanoseconds": (b"gemm,L4,8,512,512,1e-9,measured", "shorter than 1e-08 s: wrong unit"),
    "half a token": (b"gemm,L4,8.5,512,512,1e-5,measured", "tokens '8.5' is not a whole number"),
    "negative tokens": (b"gemm,L4,-8,512,512,1e-5,measured", "tokens '-8' is negative"),
    "absurd tokens": (b"gemm,L4,1e300,512,512,1e-5,measured", "tokens '1e300' is absurdly large"),
    "unknown operation": (b"gem,L4,8,512,512,1e-5,measured", r"operation 'gem' .* \(did you mean 'gemm'\?\)"),
    "unknown label": (b"gemm,L4,8,512,512,1e-5,measurd", r"label 'measurd' .* \(did you mean 'measured'\?\)"),
    "no GPU": (b"gemm,,8,512,512,1e-5,measured", "gpu is empty"),
    "no shape": (b"gemm,L4,8,512,,1e-5,measured", "in_features is empty, and gemm needs it"),
    "too few fields": (b"gemm,L4,8", "3 fields where the header has 7"),
    "too many fields": (b"gemm,L4,8,512,512,1e-5,measured,9", "8 fields where the header has 7"),
    "a header again": (HEAD.strip(), "'tokens' is not a finite number"),
}


@pytest.mark.parametrize(("row", "reason"), ROWS.values(), ids=ROWS.keys())
def test_a_bad_row_is_named_and_the_rest_kept(tmp_path: Path, row: bytes, reason: str) -> None:
    """Rows before and after it are read; the reason carries the column and the value."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"# comment\n" + HEAD + GOOD + row + b"\n" + GOOD)
    table = read_table(path)
    assert table.frame.index.tolist() == [3, 5]
    (rejected,) = table.rejected
    assert rejected.line == 4
    assert re.search(reason, rejected.reason), rejected.reason


def test_a_last_line_cut_short_costs_only_itself(tmp_path: Path) -> None:
    """A calibration killed while it wrote leaves the rest of its file."""
    path = tmp_path / "t.csv"
    path.write_bytes(HEAD + GOOD + GOOD[:12])
    table = read_table(path)
    assert len(table.frame) == 1
    assert table.rejected[0].reason.startswith("cut short")


def test_a_long_value_is_cut_in_the_reason(tmp_path: Path) -> None:
    """A message stays one line however long the field."""
    path = tmp_path / "t.csv"
    path.write_bytes(HEAD + b"gemm,L4,8,512,512," + b"9x" * 5000 + b",measured\n")
    (rejected,) = read_table(path).rejected
    assert len(rejected.reason) < 120


def test_every_bad_row_has_its_own_line(tmp_path: Path) -> None:
    """Rejections come in the file's order, whatever check found them."""
    path = tmp_path / "t.csv"
    path.write_bytes(HEAD + b"gemm,L4,8,512,512,0,\n" + GOOD + b"short\n" + b"gemm,L4,x,512,512,1e-5,\n")
    assert [row.line for row in read_table(path).rejected] == [2, 4, 5]
