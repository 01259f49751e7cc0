"""`kvcliff steps` and `kvcliff memory`: decisions of a recording, and how many KV blocks fit."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import kvcliff

SCENARIOS = Path(__file__).parents[2] / "scenarios"
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


def test_memory_tells_a_scenario_from_a_file_that_starts_a_container(tmp_path: Path) -> None:
    """Both are YAML; every shipped scenario is read as one."""
    for scenario in sorted(SCENARIOS.glob("*.yaml")):
        assert memory(scenario)["starts"] is True
    compose = tmp_path / "compose.yaml"
    compose.write_text("services:\n  vllm:\n    image: vllm/vllm-openai:v0.19.0\n    command: --model Qwen3-4B\n")
    assert memory(compose, "--gpu", "L4")["vllm_version"] == "0.19.0"


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
    for words in (
        "weights",
        "activation peak",
        "CUDA graphs",
        "KV cache",
        "given",
        "1,250 of 16 tokens",
        "20,000 tokens",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--gpu is missing"),
        (["--gpu", "L4"], "nothing to account for"),
        (["--gpu", "L44", "--model", "Qwen3-4B"], "did you mean 'L4'?"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--kv-cache-dtype", "fp9"], "'fp9' is not one of"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--block-size", "0"], "--block-size '0' must be"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--max-num-seqs", "-1"], "--max-num-seqs '-1' must be"),
        (["--gpu", "L4", "--model", "Qwen3-4B", "--gpu-memory-utilization", "nan"], "--gpu-memory-utilization 'nan'"),
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


@pytest.mark.parametrize("size", ["nan", "inf", "-inf", "1e308", "-5", "0"])
def test_free_memory_that_cannot_be_is_refused_in_one_line(size: str) -> None:
    """NaN and infinities are floats to click, and no number of bytes."""
    result = kvcliff("memory", "vllm", "serve", "Qwen/Qwen3-8B", "--gpu", "L4", "--free-at-start", size)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
