"""Behaviour that people posted, and document 001's traffic patterns: direction and rough size come out."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sim.cli import main
from sim.scenario import Scenario, load_levels
from sim.strict_yaml import decode, load_yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scenarios"
CASES = ROOT.parent / "shared" / "data" / "capacity_cases" / "cases.jsonl"
BEHAVIOUR = sorted((FOLDER / "behaviour").glob("*.yaml"))
PATTERNS = sorted((FOLDER / "patterns").glob("*.yaml"))


@cache
def _checked(path: Path) -> dict[str, Any]:
    """Return what `--check` finds with one seed, at the loads its figures name."""
    scenario = decode(load_yaml(path), Scenario)
    named = {one for figure in scenario.checks.figures for one in (figure.sessions, figure.over_sessions) if one}
    levels = sorted(named or {load_levels(scenario.load)[-1]})
    points = ",".join(map(str, levels))
    arguments = ["run", str(path), "--check", "--quick", "--json", "--seeds", "1", "--jobs", "1", "--points", points]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in {0, 1}, result.output
    return dict(json.loads(result.output.splitlines()[0]))


def test_at_least_ten_public_cases_are_scenarios() -> None:
    """Each file names its case, what was posted and where."""
    assert len(BEHAVIOUR) >= 10
    for path in BEHAVIOUR:
        scenario = decode(load_yaml(path), Scenario)
        assert scenario.published is not None
        assert "capacity case" in scenario.published.source
        assert scenario.published.statements
        assert scenario.checks.figures


@pytest.mark.skipif(not CASES.exists(), reason="needs ../shared/data/capacity_cases")
def test_the_cases_they_name_exist() -> None:
    """By their ids, and they are of behaviour under load."""
    kinds = {case["id"]: case["kind"] for case in map(json.loads, CASES.read_text(encoding="utf-8").splitlines())}
    for path in BEHAVIOUR:
        head = path.read_text(encoding="utf-8").splitlines()[0]
        ids = [word.strip(":,") for word in head.split() if word.strip(":,") in kinds]
        assert ids, head
        assert {kinds[name] for name in ids} == {"K3"}


@pytest.mark.parametrize("path", [*BEHAVIOUR, *PATTERNS], ids=lambda path: path.stem)
def test_direction_and_rough_size_come_out(path: Path) -> None:
    """All figures of the file are as it demands."""
    missed = [figure for figure in _checked(path)["figures"] if not figure["met"]]
    assert not missed


def test_each_pattern_has_each_remedy_on_and_off() -> None:
    """The same names in all three, so that one table compares them."""
    names = [{one.name for one in decode(load_yaml(path), Scenario).variants} for path in PATTERNS]
    assert len(names) == 3
    shared = set.intersection(*names)
    remedies = {"paged", "contiguous, reserved", "contiguous, grows", "KV int8", "KV int4", "swap", "batch limit"}
    assert remedies <= shared
    assert any("priority, shedding" in one for one in names)


def test_the_patterns_are_one_table_and_one_chart(tmp_path: Path) -> None:
    """Answers in time of each variant under each traffic; engines that died are said to have."""
    files = [str(path) for path in PATTERNS[::2]]  # burst and mixed
    arguments = ["run", *files, "--variants", "--quick", "--seeds", "1", "--points", "60", "--out", str(tmp_path)]
    changed = ["--set", "stop.duration_s=60"]
    result = CliRunner().invoke(main, [*arguments, *changed])
    assert result.exit_code == 0, result.output
    table = " ".join(result.output.split("variants compared")[1].split())
    assert "contiguous, grows" in table
    assert "in brackets turns rejected, shed or lost" in table
    picture = tmp_path / "compared_variants.png"
    assert picture.stat().st_size > 10_000


def test_an_engine_that_dies_says_so() -> None:
    """In words, with how often and what was lost."""
    dies = ["engine.scheduler=fixed_slots", "engine.kv_reservation=grow", "engine.async_scheduling=false"]
    flags = [part for key in dies for part in ("--set", key)]
    arguments = ["run", str(FOLDER / "patterns" / "mixed.yaml"), "--quick", "--seeds", "1", "--points", "60", *flags]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "the engine ran out of memory" in words
    assert "times and died" in words
    assert "KV areas that grow" in words


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("engine.preemption_victim=lastadmitted", "did you mean 'last_admitted'?"),
        ("engine.preemption_mode=swapp", "preemption_mode"),
        ("engine.swap_space=4", "needs preemption_mode swap"),
        ("engine.shed_priority=1", "needs shed_above_kv_usage"),
        ("engine.restart_s=5", "needs kv_reservation grow"),
        ("engine.kv_reservation=grow", "fixed_slots"),
        ("engine.shed_above_kv_usage=1.5", "shed_above_kv_usage"),
        ("engine.dynamic_max_num_seqs={from_kv_usage: 1.0}", "from_kv_usage"),
        ("engine.dynamic_max_num_seqs={from: 0.5}", "from"),
        ("engine.max_num_queued_reqs=0", "max_num_queued_reqs"),
        ("retry.tries=0", "tries"),
        ("retry.backoff_s=.nan", "backoff_s"),
        ("retry.jitter=2", "jitter"),
        ("retry.factor=1e308", "factor"),
    ],
)
def test_wrong_settings_are_one_line(setting: str, said: str) -> None:
    """With what they need, or the nearest name."""
    result = CliRunner().invoke(main, ["run", str(FOLDER / "patterns" / "burst.yaml"), "--set", setting])
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("remedy", ["engine.preemption_mode=swap", "engine.shed_above_kv_usage=0.9"])
def test_remedies_are_for_models_of_one_kind_of_block(remedy: str) -> None:
    """A hybrid model has blocks that are not a prefix; and another policy has rules of its own."""
    hybrid = CliRunner().invoke(main, ["run", str(FOLDER / "hybrid-27b.yaml"), "--set", remedy])
    assert hybrid.exit_code == 2
    assert "layers all keep every token" in hybrid.output
    other = ["--set", remedy, "--set", "engine.scheduler=fixed_slots"]
    assert "needs scheduler vllm_v1" in CliRunner().invoke(main, ["run", str(PATTERNS[0]), *other]).output


@pytest.mark.parametrize("path", BEHAVIOUR, ids=lambda path: path.stem)
def test_the_page_beside_them_says_what_is_simulated(path: Path) -> None:
    """Every figure of the file is a row of scenarios/behaviour/README.md, as it comes out."""
    page = (FOLDER / "behaviour" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page if line.startswith(f"| {path.stem} ")
    ]
    written = {row[1]: float(row[3]) for row in rows}
    found = {figure["what"].split(" (")[0]: figure["simulated"] for figure in _checked(path)["figures"]}
    assert written == pytest.approx(found, rel=0.02)
