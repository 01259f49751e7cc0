"""Every scenario that ships decodes, deploys and runs, and so does every variant of it."""

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sim.json_output import result_json
from sim.load import decode_scenario
from sim.run import run_scenario
from sim.scenario import load_levels
from sim.setup import Deployment, deploy
from sim.strict_yaml import YamlDocument, apply_overrides, load_yaml
from workloads.session import Session
from workloads.span import total_tokens
from workloads.traces.shared_content import turns_of

FOLDER = Path(__file__).parents[2] / "scenarios"
FILES = sorted(FOLDER.rglob("*.yaml"))
ANSWERS = ("ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p50_s", "itl_p99_s", "requests_per_s", "prefix_hit_rate")


@cache
def document(path: Path) -> YamlDocument:
    """Return a scenario file, read once."""
    return load_yaml(path)


def deployed(path: Path, *overrides: str) -> Deployment:
    """Return a scenario with everything looked up."""
    changed = apply_overrides(document(path), overrides)
    return deploy(decode_scenario(changed), str(path))


def variants() -> list[tuple[Path, str]]:
    """Return every variant of every scenario, with its file."""
    return [(path, one.name) for path in FILES for one in decode_scenario(document(path)).variants]


def test_there_are_scenarios() -> None:
    """A wrong folder would make all tests below pass."""
    assert len(FILES) >= 25
    assert len(variants()) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_is_named_after_its_file(path: Path) -> None:
    """Its output folder is then where one looks for it; names of variants differ from each other."""
    scenario = decode_scenario(document(path))
    assert scenario.name == path.stem
    assert scenario.description
    names = [one.name for one in scenario.variants]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_runs_and_gives_finite_numbers(path: Path) -> None:
    """Its first two levels, one seed, a quarter of an hour at most."""
    deployment = deployed(path)
    levels = load_levels(deployment.scenario.load)[:2]
    result = run_scenario(deployment, levels=levels, seeds=1, explain=False)
    assert [point["sessions"] for point in result.points] == levels
    for point in result.points:
        assert point["requests"] > 0
        assert point["refused"] == 0
        one_token = deployment.scenario.workload is not None and deployment.scenario.workload.output_tokens == 1
        gaps = ("tpot_p50_s", "itl_p99_s") if one_token else ()
        told = [name for name in ANSWERS if name not in {"prefix_hit_rate", *gaps}]
        assert all(math.isfinite(point[name]) and point[name] > 0 for name in told)
        assert 0 <= point["prefix_hit_rate"] < 1
        assert 0 < point["engine_busy"] <= 1 + 1e-9
        assert point["kv_usage_mean"] <= point["kv_usage_peak"] <= 1
    json.dumps(result_json(result), allow_nan=False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_prompt_of_a_scenario_outgrows_max_model_len(path: Path) -> None:
    """By the largest lengths that its distributions give: a refused turn would end its session early."""
    deployment = deployed(path)
    load = deployment.load_at(1)
    if load.given is not None:
        lengths = [total_tokens(prompt.spans) + prompt.output.length for _, prompt in load.given.requests]
        assert max(lengths) <= deployment.scenario.engine.max_model_len
        return
    if deployment.replay is not None:
        turns = [turn for root in deployment.replay.sessions for turn in turns_of(root)]
        lengths = [turn.prompt_tokens + turn.answer.length for turn in turns]
        assert max(lengths) <= deployment.scenario.engine.max_model_len
        return
    population = load.populations[0]
    rng = np.random.default_rng(0)
    deepest = 0
    for number in range(200):
        session = population.workload.session(str(number), rng)
        assert isinstance(session, Session)
        *_, last = session.prompts()
        deepest = max(deepest, sum(span.length for span in last.spans) + last.output.length)
    assert deepest <= deployment.scenario.engine.max_model_len


@pytest.mark.parametrize(
    ("path", "name"), variants(), ids=lambda value: value.stem if isinstance(value, Path) else value
)
def test_a_variant_deploys_and_changes_something(path: Path, name: str) -> None:
    """A what-if that sets what is set already would compare a scenario with itself."""
    base = decode_scenario(document(path))
    variant = next(one for one in base.variants if one.name == name)
    deployment = deployed(path, *(f"{key}={json.dumps(value)}" for key, value in variant.set.items()))
    assert deployment.scenario != base
    assert deployment.ledger.starts


def test_checks_refer_to_figures_that_were_published() -> None:
    """A check of a cell that has no figure could never hold."""
    for path in FILES:
        scenario = decode_scenario(document(path))
        rows = {} if scenario.published is None else {row.sessions: row for row in scenario.published.rows}
        for check in scenario.checks.cells:
            for sessions in check.sessions:
                assert sessions in load_levels(scenario.load)
                assert getattr(rows[sessions], check.metric) is not None
