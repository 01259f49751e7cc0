# ruff: noqa: E501  (a bad line, what it becomes and what is said of it stand side by side)
"""The command line: what it prints, what it refuses, what it writes, and what it does not import."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sim.cli import main

REPO = Path(__file__).parents[2]
L4 = REPO / "scenarios" / "l4-qwen3-4b-fp8.yaml"
HELP_CPU_S = 0.4

SMALL = """
name: small
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine:
  kv_cache_dtype: fp8
  kv_cache_tokens: 20000
  max_model_len: 4096
  max_num_batched_tokens: 2048
workload: {shared_prefix_tokens: 512, turns: 2, new_tokens: 100, output_tokens: 5}
load: {kind: closed, sessions: [1, 2]}
stop: {sessions_per_client: 1}
slo: {ttft_p99_s: 2.0}
seeds: 2
variants:
  - {name: bf16 KV, set: {engine.kv_cache_dtype: bf16}}
"""


def kvcliff(*arguments: str | Path) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter and wait for it."""
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a scenario that takes no time."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs bad input with --out, checks how it was refused, and returns what was said."""

    def refused(*arguments: str | Path, out: Path | None = None) -> str:
        folder = tmp_path / "out" if out is None else out
        before = sorted(tmp_path.rglob("*"))
        result = kvcliff("run", *arguments, "--out", folder)
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        assert result.stderr.startswith("kvcliff: ")
        assert result.stderr.count("\n") == 1
        assert result.stderr.endswith("\n")
        assert "Traceback" not in result.stderr
        assert sorted(tmp_path.rglob("*")) == before
        return result.stderr

    return refused


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("gpu: L4", "gpuu: L4", "small.yaml:3: gpuu is not a known key (did you mean 'gpu'?)"),
        ("  max_model_len: 4096", "  max_modle_len: 4096", "engine.max_modle_len is not a known key"),
        ("  max_model_len: 4096", "  max_modle_len: 4096", "did you mean 'max_model_len'?"),
        ("  max_model_len: 4096", "  max_model_len: long", "small.yaml:10: engine.max_model_len expected a whole number, got 'long'"),
        ("turns: 2", "turns: -2", "workload.turns"),
        ("seeds: 2", "seeds: -1", "seeds -1 must be >= 1"),
        ("seeds: 2", "seeds: 2.5", "seeds"),
        ("  kv_cache_tokens: 20000", "  kv_cache_tokens: 99999999999", "engine.kv_cache_tokens 99999999999 must be <="),
        ("sessions: [1, 2]", "sessions: [0, 2]", "load.sessions[0] 0 must be >= 1"),
        ("sessions: [1, 2]", "sessions: []", "load.sessions must have at least 1 item"),
        ("sessions: [1, 2]", "sessions: [2, 1]", "must ascend"),
        ("sessions: [1, 2]", "sessions: [1, 1000000]", "load.sessions[1] 1000000 must be <= 100000"),
        ("kind: closed", "kind: clsoed", "did you mean 'closed'?"),
        ("gpu: L4", "gpu: L44", "gpu 'L44' is not in the catalog (did you mean 'L4'?)"),
        ("gpu: L4", "gpu: Voodoo2", "gpu 'Voodoo2' is not in the catalog"),
        ("model: Qwen3-4B", "model: Qwen3-5B", "model 'Qwen3-5B' is not in the catalog"),
        ("model: Qwen3-4B", "model: Qwen3-8B", "profile 'l4-qwen3-4b-fp8' is of model Qwen3-4B"),
        ("profile: l4-qwen3-4b-fp8", "profile: l4-qwen3-4b", "did you mean 'l4-qwen3-4b-fp8'?"),
        ("weight_dtype: fp8", "weight_dtype: fp7", "did you mean 'fp8'?"),
        ("kv_cache_dtype: fp8", "kv_cache_dtype: fp9", "kv_cache_dtype 'fp9' is not one of"),
        ("stop: {sessions_per_client: 1}", "stop: {}", "needs one of requests, duration_s, sessions_per_client"),
        ("stop: {sessions_per_client: 1}", "stop: {duration_s: .nan}", "stop.duration_s nan must be a finite number"),
        ("output_tokens: 5", "output_tokens: .inf", "workload.output_tokens inf must be a finite number"),
        ("output_tokens: 5", "output_tokens: {kind: uniform, low: 5, high: 1}", "output_tokens: high 1 must be at least"),
        ("load: {kind: closed, sessions: [1, 2]}", "load: {kind: bursts, sessions_per_burst: [1], interval_s: 2, jitter_s: 3}", "load: jitter_s 3 must be below"),
        ("  max_model_len: 4096", "  max_model_len: 32768", "the engine would not start: one request of max_model_len"),
        ("  max_num_batched_tokens: 2048", "  enable_chunked_prefill: false", "must be at least max_model_len 4096"),
        ("name: small", "name: ../small", "name '../small' must match the pattern"),
        ("name: small", "gpu: L4", "small.yaml:3: gpu is set twice (first at line 2)"),
        ("name: small", "name: [small", "small.yaml:3:4: did not find expected"),
        ("name: small", "name: &x [*x]", "small.yaml:2"),
        ("seeds: 2", "seeds: 2: 3", "small.yaml:16:9: mapping values are not allowed"),
    ],
)  # fmt: skip
def test_a_bad_scenario_is_refused_in_one_line(
    refused: Callable[..., str], small: Path, line: str, instead: str, said: str
) -> None:
    """Place, key, value and rule, exit code 2, and nothing written."""
    assert line in SMALL
    small.write_text(SMALL.replace(line, instead), encoding="utf-8")
    assert said in refused(small)


def test_a_file_that_is_no_scenario_is_refused(refused: Callable[..., str], small: Path, tmp_path: Path) -> None:
    """Missing, with the nearest name; empty; a folder; not text; not a mapping."""
    assert "smal.yaml: no such file (did you mean 'small.yaml'?)" in refused(tmp_path / "smal.yaml")
    for content, said in (
        (b"", "is empty"),
        (b"# nothing", "is empty"),
        (b"- 1", "mapping"),
        (b"\xff\xfe\x00", "UTF-8"),
    ):
        small.write_bytes(content)
        assert said in refused(small)
    assert "is a directory" in refused(tmp_path)


def test_a_profile_of_ones_own_that_is_broken_is_refused(
    refused: Callable[..., str], small: Path, tmp_path: Path
) -> None:
    """Empty, missing, with NaN in it, or faster than light; the profile is named and not the scenario."""
    shipped = (REPO / "sim" / "steptime" / "profiles" / "l4-qwen3-4b-fp8.yaml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    use = f"profile={json.dumps(str(mine))}"
    assert "mine.yaml: no such file" in refused(small, "--set", use)
    for content, said in (
        ("", "mine.yaml: is empty"),
        (shipped.replace("value: 0.003\n", "value: .nan\n"), "step_overhead_s.value nan must be a finite number"),
        (shipped.replace("gpu: L4\n", "gpu: L4O\n"), "mine.yaml: gpu 'L4O'"),
        (shipped.replace("  - 0.929554", "  - 0.3"), "mine.yaml: linear.seconds at 16384 tokens"),
    ):
        assert content != shipped
        mine.write_text(content, encoding="utf-8")
        assert said in refused(small, "--set", use)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--points", "abc"], "--points 'abc' must be whole numbers joined by commas"),
        (["--points", ""], "--points '' must be whole numbers"),
        (["--points", "1,,2"], "--points '1,,2' must be whole numbers"),
        (["--points", "0,2"], "--points '0,2' must lie between 1 and 100,000"),
        (["--points", "1,1000000"], "must lie between 1 and 100,000"),
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "many"], "--seeds"),
        (["--sedes", "3"], "--sedes"),
        (["--set", "engine.block_size"], "--set 'engine.block_size': expected key.path=value"),
        (["--set", "=3"], "--set '=3': expected key.path=value"),
        (["--set", "engine..block_size=3"], "expected key.path=value"),
        (["--set", "engine.block_sice=32"], "did you mean 'block_size'?"),
        (["--set", "enigne.block_size=32"], "did you mean 'engine'?"),
        (["--set", "load.sessions.7=3"], "load.sessions has 2 items, no item '7'"),
        (["--set", "gpu.name=L4"], "gpu is 'L4' and holds no key 'name'"),
        (["--set", "engine.block_size=[1"], "--set engine.block_size"),
        (["--set", "seeds=.nan"], "seeds nan must be a finite number"),
    ],
)
def test_a_bad_flag_is_refused_in_one_line(
    refused: Callable[..., str], small: Path, flags: list[str], said: str
) -> None:
    """As a bad scenario is: no usage text, no traceback."""
    assert said in refused(small, *flags)


def test_no_scenario_and_no_such_command_are_refused(refused: Callable[..., str]) -> None:
    """One line too."""
    assert "SCENARIO" in refused()
    result = kvcliff("rnu")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("kvcliff: No such command 'rnu'")


def test_two_scenarios_of_one_name_are_refused(refused: Callable[..., str], small: Path, tmp_path: Path) -> None:
    """Their files would overwrite each other; nothing is simulated first."""
    other = tmp_path / "other.yaml"
    other.write_text(SMALL, encoding="utf-8")
    assert "two of the scenarios are named 'small'" in refused(small, other)


def test_a_bad_second_scenario_is_found_before_the_first_runs(
    refused: Callable[..., str], small: Path, tmp_path: Path
) -> None:
    """All files are read and checked first."""
    assert "no such file" in refused(small, tmp_path / "missing.yaml")


def test_a_bad_variant_is_refused_with_its_name(refused: Callable[..., str], small: Path) -> None:
    """And where the variants stand."""
    small.write_text(SMALL.replace("kv_cache_dtype: bf16", "kv_cache_dtype: bf61"), encoding="utf-8")
    said = refused(small, "--variants")
    assert "small.yaml:17: variant 'bf16 KV': " in said
    assert "did you mean 'bf16'?" in said


def test_a_file_in_the_place_of_out_is_refused(refused: Callable[..., str], small: Path, tmp_path: Path) -> None:
    """Before anything is simulated."""
    taken = tmp_path / "taken"
    taken.write_text("mine", encoding="utf-8")
    assert "taken" in refused(small, out=taken)
    assert taken.read_text(encoding="utf-8") == "mine"


def test_an_out_that_cannot_be_made_is_one_line_too(small: Path, tmp_path: Path) -> None:
    """A file where its parent or the scenario's folder should be: refused before anything is simulated."""
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "small").write_text("mine", encoding="utf-8")
    for out in (tmp_path / "taken" / "deeper", tmp_path / "out"):
        result = kvcliff("run", small, "--quick", "--points", "1", "--out", out)
        assert result.exit_code == 2
        assert result.stderr.startswith("kvcliff: ")
        assert "cannot be written" in result.stderr
        assert not result.stdout
        assert result.stderr.count("\n") == 1


POINT_KEYS = {
    "sessions", "requests", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p50_s", "itl_p99_s", "requests_per_s",
    "output_tokens_per_s", "prefix_hit_rate", "preemptions", "reprefilled_tokens", "kv_usage_peak",
}  # fmt: skip


def test_json_is_one_object_with_the_promised_keys_and_nothing_else(small: Path) -> None:
    """Exactly what DESIGN.md says at least; each metric has its interval."""
    result = kvcliff("run", small, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    printed = json.loads(result.stdout)
    assert printed.keys() >= {"scenario", "points", "knee_sessions", "knee_cause", "slo_sessions"}
    assert printed["scenario"] == "small"
    assert [point["sessions"] for point in printed["points"]] == [1, 2]
    for point in printed["points"]:
        assert point.keys() >= POINT_KEYS | {f"{key}_low" for key in POINT_KEYS - {"sessions"}}
        assert point.keys() >= {f"{key}_high" for key in POINT_KEYS - {"sessions"}}
        assert point["ttft_p99_s_low"] <= point["ttft_p99_s"] <= point["ttft_p99_s_high"]
        counts = ("sessions", "requests", "preemptions", "reprefilled_tokens")
        assert all(isinstance(point[key], int) for key in counts)
    assert (printed["knee_sessions"], printed["knee_cause"], printed["slo_sessions"]) == (None, None, 2)


def test_json_with_nothing_completed_has_null_and_no_nan(small: Path) -> None:
    """A run of a millisecond answers nobody."""
    result = kvcliff("run", small, "--json", "--set", "stop={duration_s: 0.001}")
    assert "NaN" not in result.stdout
    point = json.loads(result.stdout)["points"][0]
    assert (point["requests"], point["unfinished"], point["ttft_p99_s"]) == (0, 1, None)


def test_a_table_of_nothing_completed_is_still_a_table(small: Path, tmp_path: Path) -> None:
    """And its files are written, charts of unknown values included."""
    result = kvcliff("run", small, "--set", "stop={duration_s: 0.001}", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (tmp_path / "out" / "small" / "cliff.png").stat().st_size > 0


def test_json_of_two_scenarios_is_one_object_with_both(small: Path, tmp_path: Path) -> None:
    """In the order given."""
    other = tmp_path / "other.yaml"
    other.write_text(SMALL.replace("name: small", "name: other"), encoding="utf-8")
    printed = json.loads(kvcliff("run", other, small, "--json", "--quick").stdout)
    assert list(printed) == ["scenarios"]
    assert [one["scenario"] for one in printed["scenarios"]] == ["other", "small"]
    alone = json.loads(kvcliff("run", small, "--json", "--quick").stdout)
    assert printed["scenarios"][1] == alone


def test_json_with_variants_holds_each_under_its_name(small: Path) -> None:
    """As results of their own."""
    printed = json.loads(kvcliff("run", small, "--json", "--quick", "--variants").stdout)
    assert list(printed["variants"]) == ["bf16 KV"]
    assert printed["variants"]["bf16 KV"]["memory"]["bytes_per_token"] == 2 * printed["memory"]["bytes_per_token"]


def test_flags_replace_points_seeds_and_keys(small: Path) -> None:
    """Points in order, each once."""
    result = kvcliff("run", small, "--json", "--quick", "--points", "4,1,4", "--seeds", "1", "--set", "name=mine")
    printed = json.loads(result.stdout)
    assert printed["scenario"] == "mine"
    assert [point["sessions"] for point in printed["points"]] == [1, 4]
    assert printed["provenance"]["seeds"] == 1
    assert "ttft_p99_s_low" not in printed["points"][0]


def test_without_json_tables_and_sentences_are_printed_and_files_written(small: Path, tmp_path: Path) -> None:
    """The folder is named after the scenario; every file said to be written is there."""
    result = kvcliff("run", small, "--out", tmp_path / "out", "--variants")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "No KV knee up to 2 sessions" in " ".join(result.stdout.split())
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    names = ["cliff.png", "cliff.svg", "points.csv", "turns.csv", "result.json", "variants.png", "variants.svg"]
    assert written == {f"small/{name}" for name in names}
    assert all(name in result.stdout for name in names)


def test_check_exits_with_1_when_a_check_fails_and_0_when_it_holds(small: Path) -> None:
    """The line says what was found and what was expected; without --check it is only noted."""
    good, bad = "checks.slo_sessions=[2, 2]", "checks.slo_sessions=[7, 9]"
    assert kvcliff("run", small, "--json", "--quick", "--check", "--set", good).exit_code == 0
    assert kvcliff("run", small, "--json", "--quick", "--set", bad).exit_code == 0
    result = kvcliff("run", small, "--json", "--quick", "--check", "--set", bad)
    assert result.exit_code == 1
    assert result.stderr == "kvcliff: check failed: slo_sessions is 2, expected 7 to 9\n"
    assert json.loads(result.stdout)["failed_checks"] == ["slo_sessions is 2, expected 7 to 9"]


RUN_TWICE = ("run", str(L4), "--points", "6,14", "--seeds", "2", "--quick")


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """Return the files and the JSON of two equal runs, from two folders and with two hash seeds."""
    outcomes: list[dict[str, bytes]] = []
    for seed in ("1", "4242"):
        folder = tmp_path_factory.mktemp(f"hash-seed-{seed}")
        code = "import os, sys; os.chdir(sys.argv.pop(1)); from sim.cli import main; main()"
        files = python("-c", code, str(folder), *RUN_TWICE, "--out", "here", PYTHONHASHSEED=seed)
        printed = python("-c", code, str(folder), *RUN_TWICE, "--json", PYTHONHASHSEED=seed)
        assert (files.returncode, printed.returncode) == (0, 0), files.stderr + printed.stderr
        outcome = {path.name: path.read_bytes() for path in (folder / "here").rglob("*.*")}
        outcomes.append(outcome | {"stdout": files.stdout.encode(), "--json": printed.stdout.encode()})
    return outcomes


@pytest.mark.parametrize(
    "what", ["cliff.png", "cliff.svg", "points.csv", "turns.csv", "result.json", "--json", "stdout"]
)
def test_the_same_input_gives_the_same_bytes(twice: list[dict[str, bytes]], what: str) -> None:
    """In another working directory, another process, another order of sets."""
    first, second = twice
    assert len(first[what]) > 100
    assert first[what] == second[what]
    assert first.keys() == second.keys()


RECORDING = {
    "name": "two",
    "num_gpu_blocks": 20,
    "requests": [
        {"id": "a", "prompt": [["seg", 1, 40]], "output_len": 2, "arrival_step": 0},
        {"id": "b", "prompt": [["conv", "a"], ["seg", 2, 5]], "output_len": 1, "after": "a"},
    ],
}


def test_steps_prints_the_decisions_of_a_recording_one_object_a_line(tmp_path: Path) -> None:
    """A header, one record a step, a summary; turn b hits the two full blocks that a left."""
    path = tmp_path / "two.scenario.json"
    path.write_text(json.dumps(RECORDING), encoding="utf-8")
    result = kvcliff("steps", path)
    assert (result.exit_code, result.stderr) == (0, "")
    header, *records, summary = (json.loads(line) for line in result.stdout.splitlines())
    assert header["header"]["name"] == "two"
    assert [record["scheduled"] for record in records] == [{"a": 40}, {"a": 1}, {"b": 15}]
    assert records[2]["hit"] == {"b": 32}
    assert summary["summary"]["total_first_hit_tokens"] == 32


def test_a_bad_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    """Missing, no JSON, or a prompt that refers to nobody."""
    bad = [json.dumps(RECORDING)[:-2], "{}", json.dumps(RECORDING).replace('"conv", "a"', '"conv", "z"')]
    path = tmp_path / "bad.scenario.json"
    for text in (None, *bad):
        if text is not None:
            path.write_text(text, encoding="utf-8")
        result = kvcliff("steps", path)
        assert result.exit_code == 2
        assert result.stderr.startswith("kvcliff: ")
        assert "bad.scenario.json" in result.stderr
        assert result.stderr.count("\n") == 1


MEMORY_KEYS = {
    "num_gpu_blocks",
    "kv_cache_tokens",
    "max_concurrency",
    "kv_bytes",
    "bytes_per_token",
    "starts",
    "refusal",
}


def memory(*arguments: str | Path) -> dict[str, Any]:
    """Return what `kvcliff memory --json` prints."""
    result = kvcliff("memory", *arguments, "--json")
    assert (result.exit_code, result.stderr, result.stdout.count("\n")) == (0, "", 1)
    printed: dict[str, Any] = json.loads(result.stdout)
    assert printed.keys() >= MEMORY_KEYS
    return printed


def test_memory_of_flags_alone_says_how_many_blocks_fit() -> None:
    """The keys of DESIGN.md; fp8 KV fits twice the tokens."""
    flags = ("--gpu", "L4", "--model", "Qwen3-4B", "--weight-dtype", "fp8", "--max-model-len", "32768")
    own, fp8 = memory(*flags), memory(*flags, "--kv-cache-dtype", "fp8")
    assert own["starts"] is True
    assert own["refusal"] is None
    assert own["kv_cache_tokens"] == 16 * own["num_gpu_blocks"]
    assert fp8["kv_cache_tokens"] == pytest.approx(2 * own["kv_cache_tokens"], rel=1e-3)


def test_memory_flags_override_the_scenario(small: Path) -> None:
    """Top-level keys and engine flags; --set counts too, and a flag wins over it."""
    assert memory(small)["kv_cache_tokens"] == 20_000
    assert memory(small, "--kv-cache-tokens", "32000")["kv_cache_tokens"] == 32_000
    assert memory(small, "--set", "engine.kv_cache_tokens=48000")["kv_cache_tokens"] == 48_000
    both = ("--set", "engine.kv_cache_tokens=48000", "--kv-cache-tokens", "32000")
    assert memory(small, *both)["kv_cache_tokens"] == 32_000
    assert memory(small, "--gpu", "A100")["gpu"] == "A100-80GB-SXM"
    assert memory(small, "--max-model-len", "1000")["max_model_len"] == 1000
    assert memory(small, "--kv-cache-dtype", "bf16")["bytes_per_token"] == 147_456


def test_memory_says_why_an_engine_would_not_start(small: Path) -> None:
    """That is an answer, not bad input: exit code 0."""
    printed = memory(small, "--max-model-len", "40000")
    assert printed["starts"] is False
    assert "largest max_model_len that fits is" in printed["refusal"]
    result = kvcliff("memory", small, "--max-model-len", "40000")
    assert result.exit_code == 0
    assert "The engine would not start" in " ".join(result.stdout.split())


def test_memory_for_people_is_a_table_with_each_numbers_origin(small: Path) -> None:
    """Weights, activation peak, graphs, KV cache; blocks and concurrency below."""
    result = kvcliff("memory", small)
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    for words in ("weights", "activation peak", "CUDA graphs", "KV cache", "given", "1,250 blocks", "20,000 tokens"):
        assert words in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--gpu is missing"),
        (["--gpu", "L4"], "--model is missing"),
        (["--gpu", "L44", "--model", "Qwen3-4B"], "did you mean 'L4'?"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--kv-cache-dtype", "fp9"], "kv_cache_dtype 'fp9' is not one of"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--block-size", "0"], "block_size 0 must be"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--max-num-seqs", "-1"], "max_num_seqs -1 must be"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--gpu-memory-utilization", "nan"], "gpu_memory_utilization nan"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--kv-cache-tokens", "9000000"], "more than the"),
        (["no.yaml"], "no.yaml: no such file"),
    ],
)
def test_bad_memory_flags_are_refused_in_one_line(flags: list[str], said: str) -> None:
    """As bad scenarios are."""
    result = kvcliff("memory", *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kvcliff: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


def imported(modules: str, *arguments: str) -> list[str]:
    """Return which of the modules a command imports, in a process of its own."""
    code = (
        "import json, sys\n"
        "from sim.cli import main\n"
        "modules = sys.argv.pop(1).split()\n"
        "main(standalone_mode=False)\n"
        "sys.stderr.write(json.dumps([name for name in modules if name in sys.modules]))"
    )
    done = python("-c", code, modules, *arguments)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stderr)
    return found


def test_help_imports_neither_numpy_nor_matplotlib() -> None:
    """Nor anything else that takes time."""
    heavy = "numpy scipy matplotlib pandas simpy msgspec yaml rich torch"
    assert imported(heavy, "--help") == []
    assert imported(heavy, "run", "--help") == []


def test_a_json_run_never_imports_charts_tables_or_torch(small: Path) -> None:
    """What it needs it imports, so the check can fail."""
    found = imported("numpy simpy matplotlib pandas rich torch calibrate", "run", str(small), "--json")
    assert found == ["numpy", "simpy"]


def test_help_is_instant() -> None:
    """CPU seconds of a whole process, the best of three on a noisy machine."""

    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = python("-c", "from sim.cli import main; main()", "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "KV-cache cliff" in done.stdout
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_s() for _ in range(3)) < HELP_CPU_S


def test_the_installed_command_answers() -> None:
    """`kvcliff --version`, from the entry point beside this interpreter."""
    command = Path(sys.executable).with_name("kvcliff")
    if not command.exists():
        pytest.skip("kvcliff is not installed beside this interpreter")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.startswith("kvcliff, version ")
