"""`kvcliff convert`: layouts by header, one table out, and one line about what it cannot read."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calibrate.commands.convert import FORMATS
from calibrate.importers.conversion import PUBLISHERS
from calibrate.table_io import read_table
from sim.cli import main

GEMM = "gemm_dtype,m,n,k,latency,device\nbfloat16,8,512,512,0.01,NVIDIA L4\nbfloat16,8,512,512,oops,NVIDIA L4\n"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["convert", *map(str, arguments)])


def _refused(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stderr.startswith("kvcliff: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(name="gemm")
def _gemm(tmp_path: Path) -> Path:
    path = tmp_path / "gemm_perf.txt"
    path.write_text(GEMM)
    return path


def test_a_file_is_known_by_its_header(gemm: Path, tmp_path: Path) -> None:
    """What was understood, what was left out and why, and a table that reads back."""
    out = tmp_path / "made" / "table.csv"
    result = _run(gemm, "--out", out)
    assert result.exit_code == 0, result.output
    assert "read as aiconfigurator gemm_perf" in result.output
    assert "line 3 left out: latency 'oops' is not a finite number" in result.output
    table = read_table(out)
    assert table.rejected == ()
    assert table.frame["gpu"].tolist() == ["L4"]
    assert table.frame["time_s"].tolist() == [1e-5]


def test_json_says_the_same(gemm: Path, tmp_path: Path) -> None:
    """One object: rows, counts per operation and GPU, and the rejected lines with reasons."""
    result = _run(gemm, "--out", tmp_path / "t.csv.gz", "--json")
    told = json.loads(result.output)
    assert (told["rows"], told["rejected"]) == (1, 1)
    assert told["counts"] == [{"operation": "gemm", "gpu": "L4", "rows": 1, "too_fast": 0, "slow": 0}]
    assert told["files"][0]["first_rejected"][0]["line"] == 3


def test_rows_faster_than_light_are_left_out(tmp_path: Path) -> None:
    """An 8,192 cube in a microsecond is no measurement."""
    path = tmp_path / "g.csv"
    path.write_text("gemm_dtype,m,n,k,latency,device\nfp8,8192,8192,8192,0.001,L4\nfp8,8192,8192,8192,9,L4\n")
    result = _run(path, "--out", tmp_path / "t.csv")
    assert "line 2 left out: gemm of 0.001 ms is faster than light: L4 needs" in result.output
    assert len(read_table(tmp_path / "t.csv").frame) == 1


def test_our_own_tables_are_merged_with_others(gemm: Path, tmp_path: Path) -> None:
    """A calibration and a public file become one table, the calibration's conditions kept."""
    own = tmp_path / "own.csv"
    own.write_text("# clocks 1 GHz\noperation,gpu,time_s\nlaunch,L4,3e-6\n")
    out = tmp_path / "own.csv"
    assert _run(own, gemm, "--out", out).exit_code == 0
    table = read_table(out)
    assert table.frame["operation"].tolist() == ["launch", "gemm"]
    assert table.comments == ("clocks 1 GHz",)


def test_an_unknown_layout_names_the_nearest_and_what_it_lacks(tmp_path: Path) -> None:
    """One column short of a layout is said so; nothing is written."""
    path = tmp_path / "odd.csv"
    path.write_text("gemm_dtype,m,n,latency\nfp8,1,1,1\n")
    message = _refused(_run(path, "--out", tmp_path / "t.csv"))
    assert "nearest layout is aiconfigurator gemm_perf, but column k is missing" in message
    assert not (tmp_path / "t.csv").exists()


def test_a_stranger_is_told_whom_we_know(tmp_path: Path) -> None:
    """No column in common: the known publishers are listed."""
    path = tmp_path / "odd.csv"
    path.write_text("name,age\nx,1\n")
    message = _refused(_run(path, "--out", tmp_path / "t.csv"))
    assert "belong to no known layout" in message
    assert "llmservingsim" in message


def test_nothing_left_is_an_error_with_the_first_reason(tmp_path: Path) -> None:
    """A file whose every row is bad writes nothing."""
    path = tmp_path / "g.csv"
    path.write_text("gemm_dtype,m,n,k,latency,device\nfp8,1,1,1,x,L4\n")
    message = _refused(_run(path, "--out", tmp_path / "t.csv"))
    assert "no row is left to write; first: line 2: latency 'x'" in message
    assert not (tmp_path / "t.csv").exists()


def test_a_format_that_is_asked_for_is_the_only_one_tried(gemm: Path, tmp_path: Path) -> None:
    """`--format vidur` on a file of another project names Vidur's layouts alone."""
    message = _refused(_run(gemm, "--out", tmp_path / "t.csv", "--format", "vidur"))
    assert "nearest layout is Vidur" in message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.csv", "--out", "t.csv"], "none.csv: No such file"),
        (["--out", "t.csv"], "Missing argument"),
        (["x.csv"], "Missing option '--out'"),
        (["x.csv", "--out", "t.xls"], "t.xls: a table's name ends in"),
        (["x.csv", "--out", "t.csv", "--format", "excel"], "'excel' is not one of"),
        (["x.csv", "--out", "t.csv", "--tensor-parallel", "0"], "tensor-parallel"),
    ],
)
def test_wrong_flags_are_one_line(arguments: list[str], reason: str) -> None:
    """Exit code 2 and what is wrong."""
    assert reason in _refused(_run(*arguments))


def test_the_commands_formats_are_the_publishers() -> None:
    """The list that keeps --help instant names every importer."""
    assert tuple(PUBLISHERS) == FORMATS
