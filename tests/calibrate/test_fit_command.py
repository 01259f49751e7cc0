"""`kvcliff fit`: from a table to a profile that runs, the same bytes every time, and bad input in one line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
import yaml
from command_line import kvcliff
from device_profiles import round_numbers
from synthetic_tables import TRUTH, decodes, gemms, noisy, prefills, reduces, table_of

from calibrate.table_io import write_table
from sim.steptime.device import DeviceProfile
from sim.steptime.pricing import load_any

SCENARIO = Path(__file__).parents[2] / "scenarios" / "l4-qwen3-4b-fp8.yaml"
ANCHOR = """gpu: L4
model: Qwen3-4B
source: made up
figures:
  - {kind: tpot, context_tokens: 8000, seconds: 0.05}
"""
KEYS = {"profile", "gpu", "file", "terms", "groups", "kernels", "steps", "rejected", "slower_than_5_bounds"} | {
    "anchors",
    "missed",
    "sources",
    "unfitted",
    "verdicts",
}
QUICK = ("--replicates", "3", "--date", "2026-01-31")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a measurement table of an L4 with 2 % noise."""
    path = tmp_path / "l4.csv"
    write_table(path, noisy(table_of(*gemms(), *prefills(), *decodes(), *reduces()), 0.02))
    return path


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    """Return a file with one figure of an L4."""
    path = tmp_path / "anchor.yaml"
    path.write_text(ANCHOR, encoding="utf-8")
    return path


def fitted(*arguments: str | Path) -> dict[str, Any]:
    """Return what `kvcliff fit --json` prints."""
    result = kvcliff("fit", *arguments, *QUICK, "--json")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 1), result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    assert printed.keys() == KEYS
    return printed


def test_a_table_becomes_a_profile_that_is_read_back_and_runs(table: Path, tmp_path: Path) -> None:
    """JSON and file agree, the terms are the table's, provenance says where from, and a scenario accepts it."""
    out = tmp_path / "made" / "mine.yaml"
    printed = fitted(table, "--out", out, "--note", "made up")
    profile = load_any(str(out))
    assert isinstance(profile, DeviceProfile)
    assert (profile.name, profile.gpu, printed["profile"], printed["file"]) == ("mine", "L4", "mine", str(out))
    assert printed["terms"]["linear.bf16.bytes_per_s"]["value"] == pytest.approx(
        profile.linear["bf16"].bytes_per_s.value, rel=1e-5
    )
    for name in ("linear.bf16.bytes_per_s", "attention.bf16.decode_bytes_per_s", "links.2.bytes_per_s"):
        assert printed["terms"][name]["value"] == pytest.approx(TRUTH[name], rel=0.02)
        assert printed["terms"][name]["source"] == "fitted"
    assert printed["terms"]["linear.fp8.bytes_per_s"]["source"] == "assumed"
    assert printed["groups"]["linear bf16"]["k_fold_median"] < 0.03
    provenance = profile.provenance
    assert (provenance.kind, provenance.date) == ("fitted", "2026-01-31")
    assert provenance.made_by.startswith("kvcliff fit l4.csv")
    assert provenance.sources == ["made up", "data sheet of L4"]
    assert "made up" in provenance.notes
    assert provenance.residuals.keys() == printed["groups"].keys()
    use = f"profile={json.dumps(str(out))}"
    run = kvcliff("run", SCENARIO, "--set", use, "--quick", "--json", "--points", "1", "--seeds", "1")
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["provenance"]["profile"] == "mine"


def test_without_json_tables_are_printed(table: Path, anchor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors by group, terms with intervals, what the anchors determine."""
    monkeypatch.setenv("COLUMNS", "200")
    result = kvcliff("fit", table, *QUICK, "--anchor", anchor)
    assert result.exit_code == 0, result.output
    for words in ("linear bf16", "folds left out", "contexts left out", "95 % intervals", "determined by the anchors"):
        assert words in " ".join(result.stdout.split())


def test_the_same_seed_gives_the_same_bytes(table: Path, anchor: Path, tmp_path: Path) -> None:
    """Of the file and of the JSON; another seed gives other intervals."""
    texts, printed = [], []
    for seed in ("3", "3", "4"):
        out = tmp_path / f"{len(texts)}" / "mine.yaml"
        printed.append(fitted(table, "--anchor", anchor, "--seed", seed, "--out", out) | {"file": ""})
        texts.append(out.read_bytes())
    assert texts[0] == texts[1]
    assert printed[0] == printed[1]
    assert texts[2] != texts[0]


def test_an_anchor_alone_refines_a_scaled_profile(anchor: Path) -> None:
    """No table is needed with a relative to start from; the GPU is the anchor's."""
    printed = fitted("--scale-from", "l40s", "--anchor", anchor)
    assert printed["gpu"] == "L4"
    ((given, before, after),) = (
        [row[key] for key in ("given", "before", "after")] for row in printed["anchors"].values()
    )
    assert given == 0.05
    assert abs(after / given - 1) < abs(before / given - 1)
    assert set(printed["verdicts"].values()) <= {"determined", "partly", "not determined"}
    assert printed["verdicts"]["links.2.bytes_per_s"] == "not determined"


def test_a_gpu_by_any_of_its_names_is_the_same_gpu(table: Path, tmp_path: Path) -> None:
    """In the table and on the command line."""
    own = fitted(table)["terms"]
    assert fitted(table, "--gpu", "nvidia l4")["terms"] == own
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(table.read_text(encoding="utf-8").replace(",L4,", ",NVIDIA L4,"), encoding="utf-8")
    assert fitted(renamed)["terms"] == own


def test_bounds_and_other_gpus_rows_are_not_fitted(table: Path, tmp_path: Path) -> None:
    """Computed rows are no evidence, and an A100's say nothing of an L4."""
    own = fitted(table)["terms"]
    frame = pd.read_csv(table)
    bounds = frame.assign(label="bound", time_s=frame["time_s"] * 0.9)
    more = tmp_path / "more.csv"
    write_table(more, pd.concat([bounds, frame.assign(gpu="A100-80GB-SXM")]))
    assert fitted(table, more, "--gpu", "L4")["terms"] == own


@pytest.mark.parametrize("start", [(), ("--scale-from", "l40s")], ids=["alone", "scaled"])
def test_a_device_nobody_catalogued_is_what_its_own_rows_show(table: Path, start: tuple[str, ...]) -> None:
    """A copy and a product stand in for a data sheet, and the profile that is written can be read and run."""
    frame = pd.read_csv(table)
    copy = {"operation": "copy", "bytes": 1e9, "time_s": 1e9 / 250e9, "label": "measured", "source": "made up"}
    write_table(table, pd.concat([frame, pd.DataFrame([copy])]).assign(gpu="my box"))
    out = table.parent / "box.yaml"
    printed = fitted(table, *start, "--out", out)
    assert printed["gpu"] == "my box"
    profile = load_any(str(out))
    assert isinstance(profile, DeviceProfile)
    assert profile.hardware is not None
    assert 250e9 < profile.hardware.bandwidth_bytes_per_s < 300e9
    settings = ("gpu=my box", f"profile={json.dumps(str(out))}", "engine.kv_cache_tokens=50000", "weight_dtype=bf16",
                "engine.kv_cache_dtype=auto")  # fmt: skip
    flags = [word for setting in settings for word in ("--set", setting)]
    run = kvcliff("run", SCENARIO, *flags, "--quick", "--json", "--points", "1", "--seeds", "1")
    assert run.exit_code == 0, run.output


Hostile = Callable[[list[str]], list[str]]
HOSTILE: dict[str, tuple[Hostile, str]] = {
    "a last line cut short": (lambda lines: [*lines, lines[1][:20]], "cut short"),
    "a time that is no number": (lambda lines: [*lines, _with_time(lines, "nan")], "is not a finite number"),
    "a time of zero": (lambda lines: [*lines, _with_time(lines, "0")], "is not above zero"),
    "a product faster than light": (lambda lines: [*lines, _with_time(lines, "2e-8")], "is faster than light"),
    "an unknown operation": (lambda lines: [*lines, lines[1].replace("gemm", "gem")], "did you mean 'gemm'?"),
}


def _with_time(lines: list[str], time_s: str) -> str:
    cells = dict(zip(lines[0].split(","), lines[1].split(","), strict=True)) | {"time_s": time_s}
    return ",".join(cells.values())


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_row_is_named_and_the_rest_is_fitted(table: Path, what: str) -> None:
    """The profile is that of the good rows."""
    spoil, said = HOSTILE[what]
    own = fitted(table)
    lines = table.read_text(encoding="utf-8").splitlines()
    spoiled = spoil(lines)
    table.write_text("\n".join(spoiled) + ("" if "cut short" in what else "\n"), encoding="utf-8")
    printed = fitted(table)
    assert printed["terms"] == own["terms"]
    (rejected,) = printed["rejected"]
    assert "l4.csv" in rejected
    assert said in rejected
    assert str(len(lines) + 1) in rejected
    people = kvcliff("fit", table, *QUICK)
    assert "1 rows rejected, e.g. l4.csv line" in " ".join(people.stdout.split())


def test_rows_far_above_the_bound_are_kept_and_counted(table: Path) -> None:
    """A product of 8,192 tokens that took ten times as long as the hardware needs."""

    def slow_rows() -> int:
        result = kvcliff("fit", table, *QUICK)
        assert result.exit_code == 0
        found = re.search(r"(\d+) rows are more than 5 times slower", " ".join(result.stdout.split()))
        return int(found[1]) if found else 0

    before = slow_rows()
    frame = pd.read_csv(table)
    slow = (frame["operation"] == "gemm") & (frame["tokens"] == 8192)
    write_table(table, frame.assign(time_s=frame["time_s"] * np.where(slow, 10, 1)))
    after = slow_rows()
    assert after == before + slow.sum() > before


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing to fit": ((), "nothing to fit: give a measurement table, an --anchor, or --scale-from"),
    "no such table": (("l5.csv",), "l5.csv: No such file"),
    "no row of the GPU": (("l4.csv", "--gpu", "A100"), "no row of A100-80GB-SXM; the tables hold L4"),
    "two GPUs": (("both.csv",), "--gpu: the tables hold rows of A100-80GB-SXM, L4; name one"),
    "unknown GPU": (("l4.csv", "--gpu", "L44"), "gpu 'L44' is not in the catalog (did you mean 'L4'?)"),
    "a misspelt GPU in the table": (("typo.csv",), "gpu 'L44' is not in the catalog (did you mean 'L4'?)"),
    "unknown donor": (("l4.csv", "--scale-from", "l40"), "did you mean 'l40s'?"),
    "a donor of one model": (("l4.csv", "--scale-from", "l4-qwen3-4b-fp8"), "is of one model, Qwen3-4B"),
    "a donor that is no GPU": (("l4.csv", "--scale-from", "cpu-epyc-1-thread"), "is of cpu: AMD EPYC, 1 threads"),
    "no true row": (("wrong.csv", "--gpu", "L4"), "wrong.csv: no row is left to fit; first: line 2: time_s '-1.0'"),
    "out is a folder": (("l4.csv", "--out", "folder.yaml"), "--out folder.yaml: Is a directory"),
    "only bounds": (("bounds.csv",), "no row of L4"),
    "out is no YAML": (("l4.csv", "--out", "mine.json"), "--out mine.json: a profile is a .yaml file"),
    "anchor of another GPU": (("l4.csv", "--anchor", "h100.yaml"), "h100.yaml: the anchor is of gpu H100"),
    "anchor with a typo": (("l4.csv", "--anchor", "typo.yaml"), "typo.yaml:5: figures[0].kind"),
    "no such anchor": (("l4.csv", "--anchor", "ancor.yaml"), "no such file (did you mean 'anchor.yaml'?)"),
    "negative seed": (("l4.csv", "--seed", "-1"), "--seed"),
    "step of an unknown model": (
        ("steps.csv",),
        "model 'Qwen9-1T' of step or layer rows is not in the catalog (did you mean",
    ),
    "step of no model": (("nameless.csv",), "model '' of step or layer rows is not"),
}


@pytest.fixture
def folder(table: Path, anchor: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with files that are wrong in one way each."""
    here = table.parent
    monkeypatch.chdir(here)
    frame = pd.read_csv(table)
    write_table(here / "both.csv", pd.concat([frame, frame.assign(gpu="A100-80GB-SXM")]))
    write_table(here / "typo.csv", frame.assign(gpu="L44"))
    write_table(here / "wrong.csv", frame.assign(time_s=-1.0))
    (here / "folder.yaml").mkdir()
    write_table(here / "bounds.csv", frame.assign(label="bound"))
    step = {"operation": "step", "gpu": "L4", "time_s": 0.1, "tokens": 8, "decode_rows": 8, "decode_past_tokens": 99}
    for name, model in (("steps", "Qwen9-1T"), ("nameless", "")):
        write_table(here / f"{name}.csv", pd.DataFrame([step | {"model": model, "sequences": 0}]))
    (here / "h100.yaml").write_text(ANCHOR.replace("L4", "H100"), encoding="utf-8")
    (here / "typo.yaml").write_text(ANCHOR.replace("tpot", "tpto"), encoding="utf-8")
    return here


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_and_writes_nothing(folder: Path, what: str) -> None:
    """Exit code 2, nothing on stdout, no file or part of one."""
    arguments, said = BAD[what]
    before = sorted(folder.rglob("*"))
    out = () if "--out" in arguments else ("--out", "made/mine.yaml")
    result = kvcliff("fit", *arguments, *out, "--json")
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("kvcliff: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert sorted(folder.rglob("*")) == before


def test_what_stood_at_out_stays_when_a_fit_fails(folder: Path) -> None:
    """It is replaced whole or not at all."""
    (folder / "mine.yaml").write_text("mine", encoding="utf-8")
    assert kvcliff("fit", "both.csv", "--out", "mine.yaml").exit_code == 2
    assert (folder / "mine.yaml").read_text(encoding="utf-8") == "mine"


def test_a_donor_in_a_file_of_ones_own_is_scaled(folder: Path) -> None:
    """To the GPU of the rows."""
    document = msgspec.to_builtins(round_numbers(gpu="L4"))
    (folder / "donor.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    printed = fitted("--scale-from", "donor.yaml", "--gpu", "L40S")
    assert printed["gpu"] == "L40S"
    assert printed["terms"]["linear.bf16.bytes_per_s"]["value"] == pytest.approx(200e9 * 864 / 300)
