"""`kvcliff sweep` as people use it: tables and files, killed and run again, with combinations that fail."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from command_line import kvcliff

from sim.errors import ScenarioError
from sim.setup import Deployment
from sim.sweep import local
from sim.sweep.lock import locked
from sim.sweep.task import Failure, Outcome, Task, attempt

ROOT = Path(__file__).parents[3]
OVER = ("--over", "engine.kv_cache_dtype=fp8,auto", "--over", "engine.max_num_seqs=1,8")
STORE = "simulations.jsonl"


def swept(small: Path, out: Path, *arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """Return the printed JSON and what was said beside it."""
    result = kvcliff("sweep", small, "--out", out, "--json", "--jobs", "1", *arguments)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout), result.stderr


def rows(out: Path) -> list[dict[str, str]]:
    """Return sweep.csv."""
    with (out / "sweep.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_table_files_and_json_tell_the_same(small: Path, tmp_path: Path) -> None:
    """A row a combination in the table, a row a point in the CSV, all of it in the JSON, and a chart."""
    out = tmp_path / "out"
    result = kvcliff("sweep", small, *OVER, "--quick", "--out", out)
    assert result.exit_code == 0, result.output
    table = [line.split() for line in result.stdout.splitlines() if line.strip().startswith(("fp8", "auto"))]
    assert [row[:2] for row in table] == [["fp8", "1"], ["fp8", "8"], ["auto", "1"], ["auto", "8"]]
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(out))
    assert {path.name for path in out.iterdir()} == {STORE, "sweep.csv", "sweep.json", "sweep.png", "sweep.svg"}
    points = rows(out)
    assert len(points) == 4 * 2
    assert {row["status"] for row in points} == {"ok"}
    printed, said = swept(small, out, *OVER, "--quick")
    assert printed == json.loads((out / "sweep.json").read_text(encoding="utf-8"))
    assert said == f"32 simulations reused, 0 computed, in {out / STORE}\n"
    flat = [(one["settings"], point) for one in printed["combinations"] for point in one["points"]]
    for row, (settings, point) in zip(points, flat, strict=True):
        assert {key: str(value) for key, value in settings.items()}.items() <= row.items()
        assert float(row["ttft_p99_s"]) == point["ttft_p99_s"]
        assert int(row["sessions"]) == point["sessions"]


def test_a_sweep_of_one_says_what_a_run_says(small: Path, tmp_path: Path) -> None:
    """Knee, SLO capacity, points and cause are those of `kvcliff run`."""
    printed, _ = swept(small, tmp_path, "--points", "1-3", "--seeds", "3", "--set", "engine.max_num_seqs=1")
    (one,) = printed["combinations"]
    run = json.loads(
        kvcliff("run", small, "--json", "--points", "1,2,3", "--seeds", "3", "--set", "engine.max_num_seqs=1").stdout
    )
    assert {key: one[key] for key in run} == run
    assert (one["status"], one["errors"], one["settings"]) == ("ok", [], {})


@pytest.mark.parametrize(
    ("change", "computed"),
    [
        ((), 0),
        (("--set", "description=other words", "--set", "name=other"), 0),
        (("--points", "1,2,3"), 8),
        (("--seeds", "3"), 8),
        (("--set", "engine.max_num_batched_tokens=1024"), 16),
        (("--set", "profile=l4"), 16),
    ],
)
def test_only_what_changed_is_computed(small: Path, tmp_path: Path, change: tuple[str, ...], computed: int) -> None:
    """Two dtypes, two loads, two seeds, with and without a KV limit: 16 simulations."""
    base = ("--over", "engine.kv_cache_dtype=fp8,auto", "--quick")
    assert "0 simulations reused, 16 computed" in swept(small, tmp_path, *base)[1]
    assert f" {computed} computed" in swept(small, tmp_path, *base, *change)[1]


def test_a_combination_that_cannot_exist_is_a_row_that_says_so(small: Path, tmp_path: Path) -> None:
    """It is reported before the others are simulated, and is no failure."""
    over = ("--over", "engine.kv_cache_tokens=20000,2000", "--quick")
    printed, said = swept(small, tmp_path, *over)
    assert [one["status"] for one in printed["combinations"]] == ["ok", "impossible"]
    assert said.startswith("skipped: kv_cache_tokens 2000: ")
    assert "the engine would not start" in printed["combinations"][1]["errors"][0]
    assert [(row["sessions"], row["status"]) for row in rows(tmp_path)] == [
        ("1", "ok"),
        ("2", "ok"),
        ("", "impossible"),
    ]
    table = kvcliff("sweep", small, *over, "--out", tmp_path).stdout
    assert "kv_cache_tokens 2000 impossible: " in table


def failing(deployment: Deployment, task: Task) -> Outcome | Failure:
    """Fail one load of one combination, as a bug of ours would."""
    if (task.level, task.seed, deployment.engine.scheduler.max_num_seqs) == (2, 1, 8) and task.lifted is None:
        return Failure("ZeroDivisionError: division by zero", "Traceback ...")
    return attempt(deployment, task)


def test_a_failure_is_a_row_and_costs_nothing_else(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1; once mended, a rerun computes it and nothing else."""
    with monkeypatch.context() as patched:
        patched.setattr(local, "attempt", failing)
        printed, said = swept(small, tmp_path, *OVER, "--quick", code=1)
        table = kvcliff("sweep", small, *OVER, "--quick", "--out", tmp_path)
    assert [one["status"] for one in printed["combinations"]] == ["ok", "failed", "ok", "failed"]
    assert printed["combinations"][1]["errors"] == ["load 2, seed 1: ZeroDivisionError: division by zero"]
    assert "30 computed" in said
    assert table.exit_code == 1
    assert "max_num_seqs 8 failed: load 2, seed 1: ZeroDivisionError" in " ".join(table.stdout.split())
    failed = [row for row in rows(tmp_path) if row["status"] == "failed"]
    assert [(row["sessions"], row["engine.max_num_seqs"], row["ttft_p99_s"]) for row in failed] == [("2", "8", "")] * 2
    assert failed[0]["error"] == "load 2, seed 1: ZeroDivisionError: division by zero"
    mended, said = swept(small, tmp_path, *OVER, "--quick")
    assert "30 simulations reused, 2 computed" in said
    assert [one["status"] for one in mended["combinations"]] == ["ok"] * 4


def test_where_every_simulation_fails_there_is_still_a_table(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a chart, for there is nothing to draw."""
    monkeypatch.setattr(local, "attempt", lambda *_: Failure("OSError: no"))
    result = kvcliff("sweep", small, "--out", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "load 1, seed 0: OSError: no" in result.stdout
    assert not (tmp_path / "sweep.png").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--over", "engine.kv_cache_dtyp=fp8"), "did you mean 'kv_cache_dtype'"),
        (("--over", "gpu=L4,L44"), "did you mean 'L4'"),
        (("--over", "load.sessions"), "expected key.path=value,value"),
        (("--points", "1-"), "such as 1,6,12 or 1-48:2"),
        (("--points", "9-1"), "9-1 must ascend"),
        (("--points", "1-9:0"), "1-9:0: the step must be at least 1"),
        (
            ("--over", "kv_cache_dtype=fp8"),
            "did you mean 'engine.kv_cache_dtype'?",
        ),
        (
            ("--over", "engine.kv_cache_dtype=fp8,fp9"),
            "--over engine.kv_cache_dtype: engine: kv_cache_dtype",
        ),
        (("--check",), "no option --check here (kvcliff run has it)"),
        (("--points", "0-4"), "must lie between 1 and 100,000"),
        (("--cluster", "dask://127.0.0.1:1", "--jobs", "2"), "give one of them"),
        (("--cluster", "dsk://127.0.0.1:1"), "did you mean 'dask'"),
        (("--over", "engine.kv_cache_tokens=1000"), "no combination can be simulated"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    small: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """Exit code 2, the nearest valid name, no traceback."""
    result = kvcliff("sweep", small, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


def test_each_scenario_has_a_folder_of_its_own(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sweep's table does not replace another's."""
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text(small.read_text(encoding="utf-8").replace("name: small", "name: other"), encoding="utf-8")
    for scenarios in ((small,), (small, other)):
        assert kvcliff("sweep", *scenarios, "--quick", "--points", "1", "--json").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["sweep-small", "sweep-small+other"]


def test_two_sweeps_in_one_folder_at_once_are_one_too_many(small: Path, tmp_path: Path) -> None:
    """The second is refused in one line, and what the first wrote stays; afterwards the folder is free."""
    out = tmp_path / "out"
    with locked(out / STORE):
        second = kvcliff("sweep", small, "--quick", "--points", "1", "--out", out)
    assert (second.exit_code, second.stdout) == (2, "")
    assert second.stderr == f"kvcliff: {out}: another sweep is writing there; give another --out\n"
    assert [path.name for path in out.iterdir()] == [STORE]
    assert kvcliff("sweep", small, "--quick", "--points", "1", "--out", out).exit_code == 0


def test_a_lock_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A folder in its place."""
    with pytest.raises(ScenarioError, match="cannot be written"), locked(tmp_path):
        pass


def test_a_range_of_points_is_every_count_in_it() -> None:
    """`run` takes it too."""
    from sim.cli import _levels

    assert _levels("1-4") == [1, 2, 3, 4]
    assert _levels("1-9:4,2, 20") == [1, 2, 5, 9, 20]
    assert _levels("3-3") == [3]
    assert _levels(None) is None


def sweeping(out: Path, jobs: str) -> subprocess.Popen[bytes]:
    """Start a sweep of some 80 simulations in a process group of its own."""
    scenario = str(ROOT / "scenarios" / "l4-qwen3-4b-fp8.yaml")
    command = [sys.executable, "-m", "sim", "sweep", scenario, "--out", str(out), "--jobs", jobs, "--json"]
    over = ("--over", "engine.max_num_seqs=16,256", "--points", "1-10", "--seeds", "2", "--quick")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(  # noqa: S603
        [*command, *over],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


def wait_for_lines(path: Path, lines: int, process: subprocess.Popen[bytes]) -> None:
    """Return once so many simulations are on disk."""
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """Return the folder and the JSON of that sweep, never interrupted, in one process."""
    out = tmp_path_factory.mktemp("whole")
    printed, said = sweeping(out, "1").communicate()
    assert b"0 simulations reused, 80 computed" in said
    return out, printed


@pytest.mark.parametrize(
    ("stop", "jobs"),
    [(signal.SIGKILL, "1"), (signal.SIGKILL, "2"), (signal.SIGINT, "2"), (signal.SIGTERM, "1")],
)
def test_a_killed_sweep_goes_on_where_it_stopped(
    tmp_path: Path, whole: tuple[Path, bytes], stop: signal.Signals, jobs: str
) -> None:
    """What had finished is not run again, and the result is that of a sweep that was never interrupted."""
    killed = sweeping(tmp_path, jobs)
    wait_for_lines(tmp_path / STORE, 10, killed)
    (os.killpg if stop is signal.SIGINT else os.kill)(killed.pid, stop)
    _, said = killed.communicate()
    kept = (tmp_path / STORE).read_bytes().count(b"\n")
    if stop is signal.SIGKILL:
        assert killed.returncode == -stop
    else:
        assert killed.returncode == 130
        told = f"interrupted; {kept} of 80 simulations kept in {tmp_path}; the same command goes on"
        assert said.decode() == f"kvcliff: {told}\n"
    assert 10 <= kept < 80
    assert not (tmp_path / "sweep.json").exists()
    again = sweeping(tmp_path, jobs)
    printed, said = again.communicate()
    assert again.returncode == 0, said
    reused, computed = (int(text) for text in said.decode().split() if text.isdecimal())
    assert (reused, reused + computed) == (kept, 80)
    folder, expected = whole
    assert printed == expected
    for name in ("sweep.csv", "sweep.json", "sweep.svg"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
