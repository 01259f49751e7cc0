"""`kvcliff validate cliff` on the recordings of an engine whose costs are known."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from cpu_experiment import ENGINE, PROFILES
from run_files import write_run
from stand_in_engine import StandInEngine
from virtual_clock import drive

from calibrate.validation.cliff_workload import Workload, draw_workload
from sim.cli import main

SHORT = msgspec.structs.replace(PROFILES["agent"], turns_per_slot=8)
COUNTS = (2, 4, 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs recorded off the stand-in engine, with a little noise on its steps."""
    path = tmp_path_factory.mktemp("driven")
    for sessions in COUNTS:
        record(path / f"run_n{sessions:02}", draw_workload("agent", SHORT, sessions=sessions, seed=1))
    return path


def record(stem: Path, workload: Workload, engine: dict = ENGINE) -> None:
    """Record one run."""
    write_run(stem, workload, drive(StandInEngine(engine, log_sd=0.03), workload, 4096), engine, {})


def invoke(*arguments: str | int | Path) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(main, ["validate", "cliff", "--replicates", "4", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_an_engine_of_known_costs_is_predicted_and_drawn(folder: Path, tmp_path: Path) -> None:
    """All limits are met on an engine like ours; the charts are there, and named after profile and seed."""
    code, out, err = invoke(folder, "--replicates", 16, "--check", "--json", "--out", tmp_path / "charts")
    report = json.loads(out)
    assert code == 0, err
    assert report["passed"]
    assert [run["sessions"] for run in report["runs"]] == list(COUNTS)
    assert [run["fitted_on"] for run in report["runs"]] == [True, True, False]
    assert sorted(path.name for path in (tmp_path / "charts").iterdir()) == [
        "cliff.md",
        "cliff_agent_s1.png",
        "cliff_agent_s1.svg",
    ]


def test_the_table_names_each_run_and_the_knee(folder: Path) -> None:
    """People read which run is which, what was allowed, and where the knee lies."""
    code, out, _ = invoke(folder)
    assert code == 0
    for word in ("run_n02", "run_n07", "fitted on", "hit rate", "TTFT p90", "steps alone", "knee predicted at"):
        assert word in out


def test_a_wrong_prediction_fails_the_check_and_says_which_limit(folder: Path, tmp_path: Path) -> None:
    """Fitted on an engine twice as slow as the one predicted, throughput is off; without --check that is no failure."""
    for path in folder.glob("run_n02*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    slow = draw_workload("agent", SHORT, sessions=7, seed=2)
    requests, steps = drive(StandInEngine(ENGINE), slow, 4096)
    late = [one | {"token_times": [3 * time for time in one["token_times"]]} for one in requests]
    write_run(tmp_path / "slow", slow, (late, steps), ENGINE, {})
    code, _, err = invoke(tmp_path, "--check")
    assert code == 1
    assert "check failed: slow: turns_per_s is" in err
    assert invoke(tmp_path)[0] == 0


def test_runs_to_fit_on_are_chosen_by_pattern(folder: Path) -> None:
    """--fit-on takes shell patterns, and is what the report says was fitted on."""
    code, out, _ = invoke(folder, "--json", "--fit-on", "run_n0[47]")
    assert code == 0
    assert [run["fitted_on"] for run in json.loads(out)["runs"]] == [False, True, True]


def test_a_name_that_matches_no_run_is_refused_with_the_nearest(folder: Path) -> None:
    """Exit code 2 and one line."""
    code, _, err = invoke(folder, "--fit-on", "run_n2")
    assert code == 2
    assert "did you mean 'run_n02'?" in err
    assert err.count("\n") == 1


def test_without_runs_to_fit_on_it_says_how_to_choose(tmp_path: Path) -> None:
    """A folder with larger runs only needs --fit-on."""
    record(tmp_path / "large", draw_workload("agent", SHORT, sessions=5, seed=1))
    code, _, err = invoke(tmp_path)
    assert code == 2
    assert "--fit-on takes large" in err


def test_a_turn_that_can_never_fit_is_refused_in_words(folder: Path, tmp_path: Path) -> None:
    """A workload that asks for more than max_model_len cannot have been recorded; the message says which turn."""
    workload = draw_workload("agent", SHORT, sessions=2, seed=1)
    records = drive(StandInEngine(ENGINE), workload, 4096)
    write_run(tmp_path / "run", workload, records, ENGINE | {"max_model_len": 1000}, {})
    code, _, err = invoke(tmp_path)
    assert code == 2
    assert "can never fit" in err
