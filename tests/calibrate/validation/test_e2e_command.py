"""`kvcliff validate e2e` on made-up folders, and on a short slice of the public measurements."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from e2e_folders import engine_clock_rows, folder, write

from sim.cli import main

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "measurements"


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["validate", "e2e", *map(str, arguments)])


def report(*arguments: object) -> dict[str, Any]:
    """Return what it prints for machines."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return a folder of a recorded run, a Poisson one and one of an unknown model."""
    rows = [{}, {"experiment_id": "toy_b"}, {"experiment_id": "toy_c", "model": "Qwen3-14C"}]
    measured = {"ttft_mean_ms": "15", "tpot_mean_ms": "4", "e2e_mean_ms": "90", "request_throughput_rps": "1.99"}
    points = [{"ttft_p50_ms": "20"} | measured] + [{"experiment_id": f"toy_{name}"} | measured for name in "bc"]
    path = folder(tmp_path / "measured", rows, points)
    write(path / "e2e_requests_toy_a.csv", engine_clock_rows(40))
    return path


def test_every_load_is_reported_with_its_errors_and_what_priced_it(three: Path) -> None:
    """The recorded run's metrics come from its requests, the other's from its row; the third says why not."""
    found = report(three, "--profile", "roofline")
    recorded, poisson = found["points"]
    assert (recorded["experiment"], recorded["regime"], recorded["profile"]) == ("toy_a", "below", "roofline")
    assert recorded["measured"]["ttft_mean_s"] == pytest.approx(0.02)
    assert poisson["measured"]["ttft_mean_s"] == pytest.approx(0.015)
    assert (recorded["notes"], poisson["notes"]) == ([], ["arrivals drawn, Poisson"])
    assert recorded["predicted"]["requests"] == poisson["predicted"]["requests"] == 40
    for row in found["errors"]:
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
    assert {row["metric"] for row in found["errors"] if row["experiment"] == "toy_b"} == {
        "ttft_mean_s", "tpot_mean_s", "e2e_mean_s", "requests_per_s"
    }  # fmt: skip
    assert list(found["skipped"]) == ["toy_c"]
    assert found["skipped"]["toy_c"].startswith("model 'Qwen3-14C' is not in the catalog (did you mean 'Qwen3-14B'?)")


def test_the_same_folder_gives_the_same_report_however_many_work_on_it(three: Path) -> None:
    """Two processes or one: same numbers, same order."""
    assert report(three, "--jobs", 2) == report(three)


def test_files_hold_every_error_and_reason(three: Path, tmp_path: Path) -> None:
    """The page names the command that makes it again; nothing half-written is left."""
    out = tmp_path / "out"
    result = run(three, "--out", out)
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {"e2e.md", "e2e_errors.csv", "e2e.png", "e2e.svg"}
    page = (out / "e2e.md").read_text(encoding="utf-8")
    assert f"kvcliff validate e2e {three}" in page
    assert "did you mean 'Qwen3-14B'" in page
    with (out / "e2e_errors.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(report(three)["errors"])


def test_only_takes_prefixes_and_knows_the_nearest(three: Path) -> None:
    """A prefix that fits nothing is an error, not an empty table."""
    assert {point["experiment"] for point in report(three, "--only", "toy_b")["points"]} == {"toy_b"}
    result = run(three, "--only", "toy_x")
    assert result.exit_code == 2
    assert "starts with 'toy_x' (did you mean 'toy_" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_fitted_clients_close_the_gap_they_were_fitted_to(three: Path) -> None:
    """The roofline is faster than the made-up server, so something is left for the client; never below zero."""
    result = run(three, "--profile", "roofline", "--fit-clients", "--json")
    fitted = json.loads(result.stdout)["toy"]
    assert 0 < fitted["per_request_s"] < 0.02
    assert "Client(" in run(three, "--fit-clients").stdout


def test_a_broken_request_file_costs_its_own_experiment_only(three: Path) -> None:
    """The reason names file, line and cell."""
    rows = engine_clock_rows(40)
    rows[6] |= {"first_token_s": "nan"}
    write(three / "e2e_requests_toy_a.csv", rows)
    found = report(three)
    assert [point["experiment"] for point in found["points"]] == ["toy_b"]
    assert "e2e_requests_toy_a.csv:8: first_token_s 'nan' must be a finite number" in found["skipped"]["toy_a"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["nowhere"], "there is no such folder"), (["{folder}", "--profile", "h1000"], "profile 'h1000' is not shipped")],
)
def test_wrong_arguments_are_one_line_and_exit_code_two(three: Path, arguments: list[str], said: str) -> None:
    """No traceback, nothing on standard output."""
    result = run(*(argument.format(folder=three) for argument in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared/data/measurements is not beside the checkout")
def test_a_short_slice_of_public_runs_lies_within_a_factor_of_two() -> None:
    """The first 60 requests of two recorded runs, even with nothing but data-sheet step times."""
    some = ("--only", "resid_rate_agg2", "--only", "lss_rtx4090")
    found = report(SHARED, *some, "--profile", "roofline", "--limit-requests", 60)
    assert {point["experiment"] for point in found["points"]} == {"resid_rate_agg2", "lss_rtx4090_llama31_8b"}
    typical = {"ttft_mean_s", "tpot_mean_s", "e2e_mean_s", "requests_per_s"}
    errors = [row["error"] for row in found["errors"] if row["metric"] in typical]
    assert len(errors) == 8
    assert all(-0.5 < error < 1.0 for error in errors)


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared/data/measurements is not beside the checkout")
def test_every_public_run_is_replayed_or_says_why_not() -> None:
    """Two requests a load are enough to know."""
    found = report(SHARED, "--limit-requests", 2, "--seeds", 1)
    with (SHARED / "e2e_experiments.csv").open(encoding="utf-8", newline="") as file:
        every = {row["experiment_id"] for row in csv.DictReader(file)}
    replayed = {point["experiment"] for point in found["points"]}
    assert replayed | set(found["skipped"]) == every
    for family in ("isim_train", "resid", "lss", "dielabs", "do_h200"):
        assert {name for name in every if name.startswith(family)} <= replayed
