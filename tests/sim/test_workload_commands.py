"""`kvcliff workloads` and `kvcliff fit-workload`: what they print, write and refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import kvcliff
from small_scenario import SMALL

from sim.workload_profiles import built_in_names, load_profile


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a small trace of Mooncake's format: requests that share one block of 512 tokens."""
    rng = np.random.default_rng(4)
    rows = []
    for number in range(200):
        tokens = int(rng.integers(600, 4000))
        ids = [0, *range(number * 10 + 1, number * 10 + -(-tokens // 512))]
        row = {"timestamp": number * 500, "input_length": tokens, "output_length": int(rng.integers(5, 90))}
        rows.append(json.dumps(row | {"hash_ids": ids}))
    path = tmp_path / "some trace.jsonl"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_workloads_lists_a_line_a_profile() -> None:
    """In 80 columns, and as JSON."""
    result = kvcliff("workloads")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[: len(built_in_names())]] == built_in_names()
    listed = json.loads(kvcliff("workloads", "--json").stdout)["workloads"]
    assert [one["name"] for one in listed] == built_in_names()
    assert all(one["description"] for one in listed)


@pytest.mark.parametrize("name", ["simple", "coding-agent", "rag"])
def test_workloads_shows_numbers_sources_and_what_is_drawn(name: str) -> None:
    """Every key of the profile is there with its source."""
    result = kvcliff("workloads", name, "--max-model-len", "131072")
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    profile = load_profile(Path("workloads/profiles") / f"{name}.yaml")
    for key, source in profile.sources.items():
        assert f"{key}: " in result.stdout
        assert " ".join(source.split())[:60] in words
    assert "1,000 sessions drawn, max_model_len 131,072" in words
    assert "idle sessions are kept" in words


def test_workloads_prints_one_json_object() -> None:
    """With the requests that matter: median prompts at the first, fifth, and so on."""
    printed = json.loads(kvcliff("workloads", "coding-agent", "--json").stdout)
    assert printed["workload"]["shared_prefix_tokens"] == 15000
    assert printed["sources"].keys() >= {"turns", "think_s", "compaction"}
    drawn = printed["drawn"]
    assert list(drawn["median_prompt_tokens_at_request"]) == ["1", "5", "12", "20", "45", "90"]
    assert drawn["percentiles"]["requests_per_session"]["p50"] == pytest.approx(45, rel=0.2)
    assert drawn["hit_rate_by_kept_s"]["60"] < drawn["hit_rate_by_kept_s"]["3600"]


def test_a_profile_is_fitted_written_and_used(tmp_path: Path, trace: Path) -> None:
    """From a trace to a simulated scenario."""
    out = tmp_path / "mine.yaml"
    result = kvcliff("fit-workload", trace, "-o", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "assumed: requests without a session" in " ".join(result.stdout.split())
    profile = load_profile(out)
    assert (profile.name, profile.workload.shared_prefix_tokens, profile.workload.turns) == ("mine", 512, 1)
    assert profile.fitted_from is not None
    assert (profile.fitted_from.file, profile.fitted_from.requests) == ("some trace.jsonl", 200)
    assert len(profile.fitted_from.sha256) == 64
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL, encoding="utf-8")
    run = kvcliff("run", scenario, "--set", "workload.profile=mine.yaml", "--points", "2", "--quick", "--json")
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["points"][0]["requests"] == 2
    shown = kvcliff("workloads", out)
    assert "fitted from some trace.jsonl (Mooncake JSONL, 200 sessions, 200 requests" in " ".join(shown.stdout.split())


def test_without_a_file_the_profile_goes_to_standard_output(trace: Path) -> None:
    """And everything else to standard error, so that it can be piped."""
    result = kvcliff("fit-workload", trace, "--name", "piped", "--limit", "50", "--shape", "lognormal")
    assert result.exit_code == 0
    told = yaml.safe_load(result.stdout)
    assert (told["name"], told["fitted_from"]["requests"]) == ("piped", 50)
    assert told["workload"]["output_tokens"]["kind"] == "lognormal"
    assert "assumed" in result.stderr


def test_fits_print_one_json_object(tmp_path: Path, trace: Path) -> None:
    """Trace and profile side by side."""
    out = tmp_path / "mine.yaml"
    printed = json.loads(kvcliff("fit-workload", trace, "--out", out, "--json").stdout)
    medians = [printed[one]["percentiles"]["first_prompt_tokens"]["p50"] for one in ("trace", "profile")]
    assert medians[1] == pytest.approx(medians[0], rel=0.1)


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path, trace: Path) -> None:
    """Nothing in a profile depends on when or where it was made."""
    first, second = (kvcliff("fit-workload", trace, "--name", "x").stdout for _ in range(2))
    assert first == second
    assert str(tmp_path) not in first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workloads", "coding-agnt"], "did you mean 'coding-agent'"),
        (["workloads", "./none.yaml"], "no such file"),
        (["workloads", "coding-agent", "--max-model-len", "15001"], "leave nothing of max_model_len 15,001"),
        (["workloads", "simple", "--max-model-len", "1"], "range"),
        (["fit-workload", "none.jsonl"], "there is no such file"),
        (["fit-workload", "TRACE", "-o", "mine.json"], "must end with .yaml"),
        (["fit-workload", "TRACE", "--json"], "--json needs --out"),
        (["fit-workload", "TRACE", "--format", "moncake"], "did you mean 'mooncake'"),
        (["fit-workload", "TRACE", "-o", "TRACE/x.yaml"], "cannot be written"),
        (["fit-workload", "TRACE", "--limit", "0"], "range"),
    ],
)
def test_bad_input_is_one_line(trace: Path, arguments: list[str], message: str) -> None:
    """Exit code 2, nothing written."""
    before = sorted(trace.parent.iterdir())
    result = kvcliff(*[argument.replace("TRACE", str(trace)) for argument in arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(trace.parent.iterdir()) == before


def test_a_trace_of_subagents_alone_has_no_session_to_fit(tmp_path: Path) -> None:
    """Their parents are missing."""
    request = {"t": 0, "type": "s", "model": "m", "in": 100, "out": 5, "hash_ids": [], "api_time": 1, "think_time": 0}
    agent = {"t": 0, "type": "subagent", "agent_id": "x", "subagent_type": "u", "requests": [request]}
    session = {"id": "a", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 0}
    path = tmp_path / "agents.jsonl"
    path.write_text(json.dumps(session | {"system_tokens": 0, "requests": [agent]}), encoding="utf-8")
    result = kvcliff("fit-workload", path)
    assert result.exit_code == 2
    assert "all its requests are of subagents" in result.stderr


@pytest.mark.parametrize(
    "broken", [b"", b"\x00\x01\x02\xff" * 50, b'{"timestamp": 1, "input_le', b"[[[[[[", b"{}\n{}\n"]
)
def test_a_broken_trace_leaves_no_profile(tmp_path: Path, broken: bytes) -> None:
    """One line, whatever is in the file."""
    trace, out = tmp_path / "t.jsonl", tmp_path / "mine.yaml"
    trace.write_bytes(broken)
    result = kvcliff("fit-workload", trace, "-o", out)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()
