"""`kvcliff validate steps`: errors are those of steps not seen, limits are judged, and the public steps keep them."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from command_line import kvcliff
from device_profiles import round_numbers
from synthetic_tables import decodes, gemms, noisy, prefills, table_of

import calibrate.validation.steps
from calibrate.fitting.cross_validation import leave_model_out, leave_one_out
from calibrate.fitting.evidence import Pricer, step_figures
from calibrate.fitting.start import assumed_device
from calibrate.importers.conversion import convert_files
from calibrate.profile_file import write_profile
from calibrate.table_io import write_table
from calibrate.validation.steps import LIMITS, StepCheck
from sim.catalog import load_gpu

DATA = Path(__file__).parents[4] / "shared" / "data" / "measurements"
MODELS = ("Qwen3-4B", "Qwen3-8B")
L4 = load_gpu("L4")
SHAPES: list[dict[str, Any]] = [
    *({"decode_rows": r, "decode_past_tokens": p, "tokens": r} for r in (1, 8, 32) for p in (500, 6000)),
    *({"sequences": 1, "new_tokens": n, "past_tokens": p, "tokens": n} for n in (512, 2048) for p in (0, 8000)),
    {"sequences": 1, "new_tokens": 512, "past_tokens": 0, "decode_rows": 8, "decode_past_tokens": 4000, "tokens": 520},
]


def steps(noise: float = 0.0) -> pd.DataFrame:
    """Return whole steps of two models as the profile of round numbers has them."""
    common = {"operation": "step", "label": "measured", "gpu": "L4", "graph": "cuda_graph", "time_s": 0.1, "layers": 36}
    rows = [common | {"model": model} | shape for model in MODELS for shape in SHAPES]
    blank = table_of(*rows)
    seconds = Pricer(round_numbers()).seconds(step_figures(blank))
    return noisy(blank.assign(time_s=seconds), noise)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return operations and steps of the profile of round numbers, with 2 % noise."""
    path = tmp_path_factory.mktemp("steps") / "l4.csv"
    operations = noisy(table_of(*gemms(), *prefills(), *decodes()), 0.02)
    write_table(path, pd.concat([operations, steps(0.02)]))
    return path


@pytest.fixture(scope="module")
def printed(table: Path) -> dict[str, Any]:
    """Return what the command prints for machines."""
    result = kvcliff("validate", "steps", table, "--json")
    assert result.exit_code == 0, result.output
    (check,) = json.loads(result.stdout)["checks"]
    return check


def test_errors_of_steps_not_seen_are_near_the_noise(printed: dict[str, Any]) -> None:
    """A step by itself, by its kind and model, and with its whole model left out."""
    errors = {(row["predicted_with"], row["steps"]): row for row in printed["errors"]}
    assert {steps for _, steps in errors} == {"all", "prefill", "mixed", "decode", *MODELS}
    assert errors["one left out", "all"]["count"] == 22
    assert 0.005 < errors["one left out", "all"]["median"] < 0.03
    assert 0.005 < errors["its model left out", "all"]["median"] < 0.06
    assert (printed["faster_than_light"], printed["broken"]) == (0, [])


def test_check_passes_and_a_row_a_step_is_written(table: Path, tmp_path: Path) -> None:
    """For each way of leaving out, with measured, predicted and bound."""
    result = kvcliff("validate", "steps", table, "--check", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "0 of 22 predicted steps below the hardware's bound" in " ".join(result.stdout.split())
    with (tmp_path / "out" / "steps.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 22
    assert all(float(row["predicted_s"]) > float(row["bound_s"]) for row in rows)
    assert {row["kind"] for row in rows} == {"prefill", "mixed", "decode"}


def test_the_profile_itself_is_judged_as_it_stands(table: Path, tmp_path: Path) -> None:
    """Errors of the true profile are the noise; without noise they are nothing."""
    mine, exact = tmp_path / "mine.yaml", tmp_path / "exact.csv"
    write_profile(mine, round_numbers())
    write_table(exact, steps())
    for path, most in ((table, 0.02), (exact, 1e-4)):
        result = kvcliff("validate", "steps", path, "--profile", mine, "--json")
        (check,) = json.loads(result.stdout)["checks"]
        assert check["profile"] == "round"
        assert check["errors"][0]["predicted_with"] == "as it is"
        assert check["errors"][0]["median"] < most


def test_a_broken_limit_exits_with_1_only_when_asked(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says which, how far off, of how many."""
    monkeypatch.setattr(calibrate.validation.steps, "LIMITS", LIMITS | {"one left out": 0.001})
    result = kvcliff("validate", "steps", table, "--check", "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith("kvcliff: check failed: L4, one left out: median ")
    assert "of 22 steps, limit 0%" in result.stderr
    assert json.loads(result.stdout)["checks"][0]["broken"]
    assert kvcliff("validate", "steps", table, "--json").exit_code == 0


def test_a_predicted_step_faster_than_light_breaks_the_check() -> None:
    """Whichever way it was predicted."""
    figures = list(step_figures(steps()))
    measured = np.array([figure.seconds for figure in figures])
    fine, fast = np.zeros(len(figures)), np.where(np.arange(len(figures)) < 3, -0.9, 0.0)
    check = StepCheck("L4", "x", figures, {"one left out": fine, "its model left out": fast}, measured / 2)
    assert check.faster_than_light() == 3
    assert check.broken() == ["L4: 3 predicted steps are faster than light"]


def test_a_step_left_out_is_not_seen() -> None:
    """One measured three times too long is predicted as its neighbours say; with its model left out, so are all."""
    table = steps()
    wrong = table.assign(time_s=table["time_s"] * np.where(np.arange(len(table)) == 4, 3.0, 1.0))
    figures = list(step_figures(wrong))
    start = assumed_device(L4)
    assert leave_one_out(start, L4, figures)[4] == pytest.approx(1 / 3 - 1, abs=0.1)
    only_own = [figure for figure in figures if figure.setup.model == MODELS[0]]
    unrefined = np.array(Pricer(start).seconds(only_own)) / [figure.seconds for figure in only_own] - 1
    assert leave_model_out(start, L4, only_own) == pytest.approx(unrefined)


def test_one_model_alone_is_not_judged_by_leaving_it_out(tmp_path: Path) -> None:
    """No step would be left, and the report says what the profile then rests on."""
    path = tmp_path / "one.csv"
    write_table(path, steps(0.02)[lambda rows: rows["model"] == MODELS[0]])
    result = kvcliff("validate", "steps", path, "--check")
    assert "without them the profile rests on data-sheet shares" in " ".join(result.stdout.split())
    assert "its model left out: median" not in result.stderr


BAD = {
    "no table": ((), "TABLE"),
    "no whole step": (("operations.csv",), "operations.csv: no whole step in the tables"),
    "no such table": (("none.csv",), "none.csv: No such file"),
    "no step of the profile's GPU": (
        ("l4.csv", "--profile", "h100"),
        "--profile h100: the tables hold no whole step of",
    ),
    "a profile of one model": (("l4.csv", "--profile", "l4-qwen3-4b-fp8"), "is of one model, Qwen3-4B"),
    "no such profile": (("l4.csv", "--profile", "l40"), "did you mean 'l40s'?"),
    "no such kind": (("--sedes",), "--sedes"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Exit code 2, and nothing else."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "l4.csv", steps())
    write_table(tmp_path / "operations.csv", table_of(*gemms()))
    arguments, said = BAD[what]
    result = kvcliff("validate", "steps", *arguments, "--json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.output
    assert result.stderr.startswith("kvcliff: ")
    assert said in result.stderr


def test_a_written_profile_is_the_one_that_was_judged(tmp_path: Path) -> None:
    """Six digits of every number, nothing empty, and the command that made it on top."""
    path = tmp_path / "mine.yaml"
    write_profile(path, round_numbers())
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Made by `a test`; edit that, not this.\n")
    document = yaml.safe_load(text)
    assert document["linear"]["bf16"]["bytes_per_s"] == {
        "value": 200e9, "source": "assumed", "low": 133333000000.0, "high": 300e9
    }  # fmt: skip
    assert "notes" not in document["provenance"]


STEPS, OPERATIONS = "micro_vllm_step_times_qwen.csv", ("micro_aic_gemm.csv", "micro_aic_attention_prefill.csv",
                                                       "micro_aic_attention_decode.csv")  # fmt: skip


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared measurements are not beside this checkout")
@pytest.mark.parametrize(("gpu", "operations"), [("A100-80GB-SXM", OPERATIONS), ("L20", ())])
def test_public_steps_of_real_gpus_keep_the_limits(gpu: str, operations: tuple[str, ...], tmp_path: Path) -> None:
    """Medians of 5 % with a step left out and 12 % with its model; every second step and eighth operation will do."""
    path = tmp_path / "thin.csv"
    (steps, *parts) = [
        one.table.frame.loc[one.table.frame["gpu"] == gpu]
        for one in convert_files([DATA / STEPS, *(DATA / name for name in operations)])
    ]
    write_table(path, pd.concat([steps.iloc[::2], *(part.iloc[::8] for part in parts)]))
    result = kvcliff("validate", "steps", path, "--check", "--json")
    assert result.exit_code == 0, result.output
    (check,) = json.loads(result.stdout)["checks"]
    assert check["faster_than_light"] == 0
    assert check["errors"][0]["count"] > 20
