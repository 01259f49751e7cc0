"""The edges of a run: refusals, silence, closed pipes, names with brackets, limits left open."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sim.cli import main
from sim.results.cause import UNLIMITED_KV_TOKENS, with_unlimited_kv
from sim.run import Result, run_scenario
from sim.scenario import Scenario
from sim.setup import Deployment, deploy
from sim.strict_yaml import apply_overrides, decode, parse_yaml

TEXT = """
name: small
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine: {kv_cache_dtype: fp8, kv_cache_tokens: 20000, max_model_len: 4096, max_num_batched_tokens: 2048}
workload: {shared_prefix_tokens: 512, turns: 2, new_tokens: 100, output_tokens: 5}
load: {kind: closed, sessions: [1, 2]}
stop: {sessions_per_client: 1}
seeds: 1
"""


def deployed(*overrides: str) -> Deployment:
    """Return the small scenario with some keys changed."""
    return deploy(decode(apply_overrides(parse_yaml(TEXT, "small.yaml"), overrides), Scenario), "small.yaml")


def result_of(*overrides: str) -> Result:
    """Return its result."""
    return run_scenario(deployed(*overrides))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return the small scenario as a file."""
    path = tmp_path / "small.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize(("gpu", "budget", "seqs"), [("L4", 2048, 256), ("H100", 8192, 1024), ("A100", 2048, 256)])
def test_what_a_scenario_leaves_open_goes_by_gpu(gpu: str, budget: int, seqs: int) -> None:
    """The step budget and max_num_seqs are those of vLLM's API server on that card, for ledger and scheduler."""
    one = deployed(f"gpu={gpu}", "profile=roofline", "engine={kv_cache_dtype: fp8, max_model_len: 4096}")
    assert (one.engine.scheduler.max_num_batched_tokens, one.engine.scheduler.max_num_seqs) == (budget, seqs)
    assert one.ledger.limits.max_num_batched_tokens == budget


def test_an_unlimited_cache_holds_as_many_tokens_whatever_the_block_size() -> None:
    """It is never smaller than the real one, and keeps nothing free."""
    for size in (1, 16):
        free = with_unlimited_kv(deployed(f"engine.block_size={size}", "engine.watermark=0.5").engine)
        assert free.num_gpu_blocks * size == UNLIMITED_KV_TOKENS
        assert free.scheduler.watermark == 0


def test_turns_left_waiting_longer_than_promised_break_the_slo() -> None:
    """Three sessions fit and answer at once; the others wait for ever, and a p99 over answers would not notice."""
    result = result_of(
        "engine={kv_cache_dtype: fp8, kv_cache_tokens: 20000, max_model_len: 8192}",
        "workload={shared_prefix_tokens: 0, turns: 1, new_tokens: 4000, output_tokens: 3000}",
        "load.sessions=[1, 12]",
        "stop={duration_s: 90}",
        "slo={ttft_p99_s: 20}",
    )
    assert result.points[1]["ttft_p99_s"] < 20
    assert result.points[1]["overdue"] > 0
    assert result.slo_sessions == 1


def test_without_a_promise_nothing_breaks_it() -> None:
    """A scenario without an SLO whose turns are all refused has no cause to look for."""
    result = result_of("workload.new_tokens=40000")
    assert result.cause is None
    assert all(point["requests"] == 0 for point in result.points)


def test_refused_turns_are_explained_and_no_knee_is_claimed(small: Path) -> None:
    """The report says how long the longest was, and that nothing was answered."""
    said = CliRunner().invoke(
        main, ["run", str(small), "--set", "workload.new_tokens=40000", "--out", str(small.parent / "out")]
    )
    text = " ".join(said.stdout.split()) if said.exit_code == 0 else said.output
    assert "Nothing was answered at any load" in text
    assert "prompts of up to 40,512 tokens, where max_model_len is 4,096" in text


def test_refusals_break_the_slo_and_no_other_cause_is_looked_for(small: Path) -> None:
    """The second turn of a session is too long; the first is answered well within the limit."""
    overrides = ("workload.new_tokens=2000", "slo={ttft_p99_s: 20}")
    assert result_of(*overrides).cause is None
    flags = [flag for text in overrides for flag in ("--set", text)]
    said = CliRunner().invoke(main, ["run", str(small), *flags, "--out", str(small.parent / "out")])
    text = " ".join(said.stdout.split())
    assert "SLO (p99 TTFT within 20 s): not even at 1 session, 1 of 2 turns refused." in text
    assert "3 of 6 turns refused, too long: prompts of up to 4,517 tokens, where max_model_len is 4,096" in text
    assert "What breaks the SLO" not in text


def test_two_prefixes_are_shared_only_by_name() -> None:
    """A background's prefix is another one unless the scenario names it like the main one."""
    background = "{sessions: 1, workload: {shared_prefix_tokens: 512, turns: 1, new_tokens: 9, output_tokens: 2%s}}"
    for named, same in ("", False), (", prefix_name: shared prefix", True):
        populations = deployed(f"background={background % named}").load_at(1).populations
        assert (populations[0].workload.prefix == populations[1].workload.prefix) is same


def test_brackets_in_a_description_are_brackets(small: Path, tmp_path: Path) -> None:
    """Rich's markup is for us, not for users' text."""
    arguments = ["run", str(small), "--quick", "--out", str(tmp_path / "o[/x]"), "--set", 'description="a [/b] c"']
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0, said.output
    assert "a [/b] c" in said.stdout


def test_a_reader_that_leaves_costs_no_files(small: Path, tmp_path: Path) -> None:
    """Files are written before anything is printed; a closed pipe is no failed check."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "sim", "run", str(small), "--quick", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)  # noqa: S603
    os.close(write)
    assert done.returncode == 141, done.stderr
    assert (tmp_path / "out" / "small" / "cliff.png").is_file()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["workload.turns=10001"], "turns up to 10001 are more than the 10,000"),
        (["workload.output_tokens={kind: constant, value: 0}"], "output_tokens 0 must be at least 1"),
        (["name=" + "a" * 300], "name"),
        (['variants=[{name: "as it is", set: {}}]'], "none may be called 'as it is'"),
        (["variants=[{name: a, set: {}}, {name: a, set: {}}]"], "variants need names of their own"),
        (
            ["engine.enable_chunked_prefill=false", "engine.max_num_batched_tokens=null"],
            "must be at least max_model_len",
        ),
    ],
)
def test_more_bad_input_is_one_line(small: Path, overrides: list[str], said: str) -> None:
    """With exit code 2."""
    arguments = [part for override in overrides for part in ("--set", override)]
    result = CliRunner().invoke(main, ["run", str(small), "--quick", "--json", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_overrides_are_part_of_the_result(small: Path) -> None:
    """Whoever reads the JSON sees what was changed, and by which version."""
    result = CliRunner().invoke(main, ["run", str(small), "--quick", "--json", "--set", "engine.max_num_seqs=9"])
    provenance = json.loads(result.stdout)["provenance"]
    assert provenance["overrides"] == ["engine.max_num_seqs=9"]
    assert provenance["kvcliff"]


def test_a_check_that_cannot_be_made_has_failed(small: Path) -> None:
    """One point has no slope; no point at six sessions has no plateau."""
    arguments = ["run", str(small), "--quick", "--json", "--check", "--points", "1"]
    for check in ("ttft_p50_slope_s: [1, 2]", "requests_per_s: [1, 2]"):
        assert CliRunner().invoke(main, [*arguments, "--set", f"checks={{{check}}}"]).exit_code == 1


def test_set_without_a_scenario_is_refused() -> None:
    """`kvcliff memory --gpu ... --set` would otherwise be ignored."""
    result = CliRunner().invoke(main, ["memory", "--gpu", "L4", "--model", "Qwen3-4B", "--set", "engine.block_size=8"])
    assert result.exit_code == 2
    assert "none is given" in result.stderr
