import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from click.testing import CliRunner, Result  # noqa: E402
from tiny_model import write_config  # noqa: E402

from calibrate.table_io import read_table  # noqa: E402
from calibrate.timing import measure as measuring  # noqa: E402
from calibrate.timing.cases import Bench, Case  # noqa: E402
from calibrate.timing.points import Point  # noqa: E402
from sim.cli import main  # noqa: E402

SMALL = ["--threads", "1", "--max-num-batched-tokens", "4", "--max-num-seqs", "2", "--max-context", "64"]


def calibrate(folder: Path, *more: str) -> Result:
    """Run the command on the CPU for a tiny model."""
    model = str(write_config(folder))
    flags = ["calibrate", "--device", "cpu", "--model", model, "--out", str(folder / "rows.csv"), *SMALL, *more]
    return CliRunner().invoke(main, flags)


@pytest.fixture(autouse=True)
def instant(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Make every case take no time; return a way to send this process a signal at the nth one."""
    count, at, sent = 0, -1, 0

    def build(point: Point, _bench: Bench, _copies: int) -> Case:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), sent)
        if point.operation == "peak_memory":
            return Case(lambda _: None, memory=lambda: 1024)
        return Case(lambda _: None, sample=lambda: 1e-6)

    for name in measuring.CASES:
        monkeypatch.setitem(measuring.CASES, name, build)

    def interrupt(number: int, place: int) -> None:
        nonlocal at, sent
        at, sent = place, number

    return interrupt


def test_a_run_fills_a_table_that_reads_back_whole(tmp_path: Path) -> None:
    """Every row passes the table's own checks; the summary counts them; conditions stand at the top."""
    result = calibrate(tmp_path, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    table = read_table(tmp_path / "rows.csv")
    assert table.rejected == ()
    assert len(table.frame) == summary["rows"] == summary["rows_added"] > 50
    assert summary["points_left"] == 0
    noted = dict(line.split(": ", 1) for line in table.comments)
    assert {"model", "gpu", "started", "torch", "threads"} <= set(noted)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_a_file_to_go_on_with(
    tmp_path: Path, instant: Callable[[int, int], None], number: int, code: int
) -> None:
    """What was finished is there, the message says how to go on, and going on repeats nothing."""
    instant(number, 8)
    result = calibrate(tmp_path)
    assert result.exit_code == code
    assert "the same command goes on from there" in result.stderr
    assert len(read_table(tmp_path / "rows.csv").frame) == 7
    summary = json.loads(calibrate(tmp_path, "--json").stdout)
    frame = read_table(tmp_path / "rows.csv").frame
    assert len(frame) == summary["rows"] == summary["rows_added"] + 7
    assert not frame.duplicated().any()


def test_more_types_may_join_a_file_but_not_another_model_or_type_of_activations(tmp_path: Path) -> None:
    """Rows name their weight and KV types; the type of activations and the shapes are the file's."""
    calibrate(tmp_path, "--kv-dtypes", "bf16")
    summary = json.loads(calibrate(tmp_path, "--kv-dtypes", "bf16,int8", "--json").stdout)
    kinds = read_table(tmp_path / "rows.csv").frame["kv_cache_dtype"]
    assert summary["rows_added"] == (kinds == "int8").sum() > 0
    result = calibrate(tmp_path, "--dtype", "fp32")
    assert "holds dtype 'bf16', not 'fp32'" in result.stderr


def test_a_table_is_shown_to_people(tmp_path: Path) -> None:
    """One line an operation, and where the rows are."""
    result = calibrate(tmp_path)
    assert "decode_attention int4" in result.stdout
    assert "rows.csv" in result.stdout


def test_wrong_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """An unknown type, model or file is refused before anything is written."""
    out = tmp_path / "rows.csv"
    flags = ["calibrate", "--device", "cpu", "--out", str(out), "--model"]
    for wrong, message in (
        (["Qwen3-4C"], "did you mean 'Qwen3-4B'"),
        (["Qwen3-4B", "--kv-dtypes", "fp9"], "did you mean 'fp8'"),
        (["Qwen3-4B", "--tp", "3"], "--tp 3 must divide"),
        (["Qwen3-4B", "--budget-minutes", "nan"], "nan is not a number of minutes"),
    ):
        result = CliRunner().invoke(main, [*flags, *wrong])
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_help_does_not_wait_for_torch_and_a_missing_torch_is_one_line(tmp_path: Path) -> None:
    """Torch is imported when timing starts; without it the message says how to install it."""
    hide = "import sys; sys.modules['torch'] = None; from sim.cli import main; main()"
    flags = [
        "calibrate",
        "--device",
        "cpu",
        "--model",
        str(write_config(tmp_path)),
        "--out",
        str(tmp_path / "rows.csv"),
    ]
    run = [sys.executable, "-c", hide]
    shown = subprocess.run([*run, "calibrate", "--help"], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert "Time the operations of a model" in shown.stdout
    missing = subprocess.run([*run, *flags], capture_output=True, text=True, check=False)  # noqa: S603
    assert missing.returncode == 2
    assert missing.stderr == "kvcliff: calibrate needs torch; install it with: pip install 'kvcliff[calibrate]'\n"
