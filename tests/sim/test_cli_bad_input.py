# ruff: noqa: E501  (a bad line, what it becomes and what is said of it stand side by side)
"""What `kvcliff run` refuses: bad scenarios, flags and places, each in one line with nothing written."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import kvcliff
from small_scenario import SMALL

PROFILES = Path(__file__).parents[2] / "sim" / "steptime" / "profiles"


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
    shipped = (PROFILES / "l4-qwen3-4b-fp8.yaml").read_text(encoding="utf-8")
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
        (["--points", "abc"], "--points 'abc' must be whole numbers or ranges joined by commas"),
        (["--points", ""], "--points '' must be whole numbers"),
        (["--points", "1,,2"], "--points '1,,2' must be whole numbers"),
        (["--points", "0,2"], "--points '0,2' must lie between 1 and 100,000"),
        (["--points", "1,1000000"], "must lie between 1 and 100,000"),
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "many"], "--seeds"),
        (["--sedes", "3"], "--sedes"),
        (["--points", "1-48:0"], "--points '1-48:0': 1-48:0: the step must be at least 1"),
        (["--over", "gpu=L4"], "no option --over here (kvcliff sweep has it)"),
        (
            ["--set", "block_size=32"],
            "--set block_size: block_size is not a known key (did you mean 'engine.block_size'?)",
        ),
        (["--set", "sessions=[4]"], "did you mean 'load.sessions'?"),
        (
            ["--set", "engine.kv_cache_dtype=fp9"],
            "--set engine.kv_cache_dtype: engine: kv_cache_dtype 'fp9' is not one of",
        ),
        (["--set", "gpu=A100"], "the scenario asks for A100-80GB-SXM; --set profile=auto takes each GPU's own"),
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
    assert result.stderr.startswith("kvcliff: no command 'rnu' (did you mean 'run'?)")


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
