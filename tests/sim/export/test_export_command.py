"""`kvcliff export`: what is refused and how, commands that real servers take, files that real tools take."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_line import kvcliff

from sim.export.serve_flags import serve_command
from sim.load import load_deployment
from sim.serve_command.read import read_command

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
ONE_TURN = ("--set", "workload.turns=1")
ROWS = [
    {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [7, 8]},
    {"timestamp": 1500, "input_length": 1024, "output_length": 6, "hash_ids": [7, 9]},
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return two Mooncake rows that share a block."""
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def exported(*arguments: str | Path) -> Result:
    """Run the command."""
    result = kvcliff("export", *arguments)
    assert result.exit_code == 0, result.output
    return result


def bench_words(script: Path) -> list[list[str]]:
    """Return the words of each client's command."""
    lines = script.read_text(encoding="utf-8").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("vllm bench serve ")]


def flag(words: list[str], name: str) -> str:
    """Return the value of a flag that is there once."""
    assert words.count(name) == 1
    return words[words.index(name) + 1]


Refused = Callable[..., str]


@pytest.fixture
def turned_down(tmp_path: Path) -> Refused:
    """Return a function that runs bad input, checks how it was refused, and returns what was said."""

    def turned_down(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        result = kvcliff("export", *arguments)
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        assert "Traceback" not in result.stderr
        assert sorted(tmp_path.rglob("*")) == before
        return result.stderr

    return turned_down


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{small}", "--as", "mooncake", "-o", "{}/x"), "has no times of its own: add --times simulated"),
        (("{small}", "--as", "mooncake", "-o", "{}/x", "--times", "recorded"), "nothing of a scenario is recorded"),
        (("{small}", "--as", "weka", "-o", "{}/x", "--limit", "3"), "--limit is for traces, and this is a scenario"),
        (("{trace}", "--as", "mooncake", "-o", "{}/./trace.jsonl"), "is what is read"),
        (("{small}", "--as", "weka", "-o", "{}"), "the folder is not empty"),
        (("{small}", "--as", "mooncake", "-o", "{}"), "cannot be written: it is a folder"),
        (("{small}", "--as", "mooncake", "-o", "{trace}/x"), "trace.jsonl is a file"),
        (("{small}", "--as", "moon", "-o", "{}/x"), "'moon' is not one of"),
        (("{small}", "--as", "mooncake"), "Missing option '-o'"),
        (
            ("{small}", "--as", "agentic-rows", "-o", "{}/x", "--set", "workload.keeps_output=false"),
            "sends answers back",
        ),
        (
            ("{small}", "--as", "conversation-replay", "-o", "{}/x", "--set", "workload.keeps_output=false"),
            "answers back",
        ),
        (("{small}", "--as", "weka", "-o", "{}/x", "--set", "engine.max_model_len=0"), "max_model_len"),
        (("{trace}", "--as", "weka", "-o", "{}/x"), "trace.jsonl: request 1 is of no session"),
        (("{trace}", "--as", "conversation-replay", "-o", "{}/x"), "request 1 is of no session"),
        (
            ("{trace}", "--as", "mooncake", "-o", "{}/x", "--times", "simulated"),
            "needs a scenario, and this is a trace",
        ),
        (("{trace}", "--as", "mooncake", "-o", "{}/x", "--set", "seeds=1"), "--set is for scenarios"),
        (("{trace}", "--as", "mooncake", "-o", "{}/x", "--sessions", "1"), "--sessions is for sessions"),
        (("{trace}", "--as", "mooncake", "-o", "{}/x", "--format", "wka"), "(did you mean 'weka'?)"),
        (("{}/none.jsonl", "--as", "mooncake", "-o", "{}/x"), "there is no such file"),
        (("{}/none.yaml", "--as", "mooncake", "-o", "{}/x"), "no such file"),
    ],
)
def test_what_cannot_be_exported_is_turned_down(
    turned_down: Refused, small: Path, trace: Path, arguments: tuple[str, ...], said: str
) -> None:
    """In one line that says what is missing, and with nothing half written."""
    places = {"{small}": str(small), "{trace}": str(trace), "{}": str(trace.parent)}
    for place, path in places.items():
        arguments = tuple(one.replace(place, path) for one in arguments)
    assert said in turned_down(*arguments)


def test_a_row_that_is_wrong_leaves_nothing_written(turned_down: Refused, trace: Path) -> None:
    """File and line are named, whatever was written by then; asked to, bad rows are counted instead."""
    trace.write_text(trace.read_text(encoding="utf-8") + '{"timestamp": 9}\n', encoding="utf-8")
    output = trace.parent / "copy.jsonl"
    assert "trace.jsonl:3: key missing: input_length" in turned_down(trace, "--as", "mooncake", "-o", output)
    printed = exported(trace, "--as", "mooncake", "-o", output, "--skip-bad-rows").stdout
    assert "1 bad rows were skipped" in printed


def test_a_trace_is_replayed_with_its_own_blocks(trace: Path, tmp_path: Path) -> None:
    """The script names no model, and stands beside its rows."""
    printed = exported(trace, "--as", "vllm-bench", "-o", tmp_path / "fire.sh").stdout
    (words,) = bench_words(tmp_path / "fire.sh")
    assert flag(words, "--timed-trace-chunk-hash-size") == "512"
    assert (flag(words, "--num-prompts"), flag(words, "--model")) == ("2", "$MODEL")
    rows = (tmp_path / flag(words, "--dataset-path")).read_text(encoding="utf-8").splitlines()
    assert [json.loads(row)["hash_ids"] for row in rows] == [[0, 1], [0, 2]]
    assert "29.7% of the prompt tokens" in printed  # 512 of 1,724


def test_every_level_has_a_command(small: Path, tmp_path: Path) -> None:
    """Conversations are replayed at the times a simulation sent them, each level from a file."""
    exported(small, "--as", "vllm-bench", "-o", tmp_path / "fire.sh")
    commands = bench_words(tmp_path / "fire.sh")
    assert [flag(words, "--num-prompts") for words in commands] == ["2", "4"]
    for words, level in zip(commands, (1, 2), strict=True):
        assert flag(words, "--dataset-name") == "timed_trace"
        assert flag(words, "--dataset-path") == f"fire.{level}.jsonl"
        assert "--append-result" in words
        rows = [json.loads(row) for row in (tmp_path / f"fire.{level}.jsonl").read_text(encoding="utf-8").splitlines()]
        assert all(len(row["hash_ids"]) == -(-row["input_length"] // 16) for row in rows)
    assert len({flag(words, "--seed") for words in commands}) == 2  # else the second would find the first's prompts


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            (),
            {"--dataset-name": "prefix_repetition", "--prefix-repetition-suffix-len": "100", "--max-concurrency": "1"},
        ),
        (("workload.shared_prefix_tokens=0",), {"--dataset-name": "random", "--random-input-len": "100"}),
        (
            ("load={kind: poisson, sessions_per_minute: [90]}", "stop={requests: 30}"),
            {"--request-rate": "1.5", "--burstiness": "1", "--num-prompts": "30"},
        ),
        (
            ("load={kind: constant_rate, sessions_per_minute: [90]}", "stop={requests: 30}"),
            {"--request-rate": "1.5", "--burstiness": "inf"},
        ),
        (("workload.new_tokens={kind: normal, mean: 100, std: 9}",), {"--dataset-name": "timed_trace"}),
        (("workload.think_s=3",), {"--dataset-name": "timed_trace"}),
    ],
)
def test_single_turns_of_fixed_length_need_no_file(
    small: Path, tmp_path: Path, changes: tuple[str, ...], expected: dict[str, str]
) -> None:
    """The tool has data sets of its own for them, and for nothing else of ours."""
    flags = [part for change in changes for part in ("--set", change)]
    exported(small, *ONE_TURN, *flags, "--as", "vllm-bench", "-o", tmp_path / "fire.sh")
    words = bench_words(tmp_path / "fire.sh")[0]
    assert {name: flag(words, name) for name in expected} == expected


@pytest.mark.parametrize("name", sorted(path.stem for path in SCENARIOS.glob("*.yaml")))
def test_servers_start_as_simulated(name: str) -> None:
    """Our own reader of pasted commands takes every flag, and finds the scenario's own settings."""
    deployment = load_deployment(SCENARIOS / f"{name}.yaml")
    read_command(serve_command(deployment))
    engine = deployment.scenario.engine
    text = " ".join(serve_command(deployment))
    assert f"--max-model-len {engine.max_model_len} " in text
    assert f"--max-num-batched-tokens {deployment.ledger.limits.max_num_batched_tokens} " in text
    if engine.kv_cache_tokens is not None:
        assert f"--num-gpu-blocks-override {deployment.ledger.num_gpu_blocks} " in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("weight_dtype=int4", "the scenario's weights are int4: name a checkpoint of Qwen3-4B that has them"),
        ("engine.scheduler=fixed_slots", "the scenario's scheduler is fixed_slots, which vLLM does not have"),
        ("engine.scheduling_policy=lifo", "the scenario's queue order is lifo, which vLLM does not have"),
    ],
)
def test_what_no_flag_asks_for_is_said(small: Path, tmp_path: Path, change: str, said: str) -> None:
    """As a comment in the script."""
    flags = ("--set", change, "--set", "profile=roofline")
    exported(small, *flags, *ONE_TURN, "--as", "vllm-bench", "-o", tmp_path / "fire.sh")
    assert f"# {said}" in (tmp_path / "fire.sh").read_text(encoding="utf-8")


def test_memory_of_the_printed_server_is_the_scenarios(small: Path) -> None:
    """`kvcliff memory` of it says as many blocks."""
    deployment = load_deployment(small)
    result = kvcliff("memory", *serve_command(deployment), "--gpu", "L4", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["num_gpu_blocks"] == deployment.ledger.num_gpu_blocks


def test_aiperf_takes_the_files(small: Path, trace: Path, tmp_path: Path) -> None:
    """Its own models of rows, sessions and results."""
    reason = "aiperf is not installed"
    loader = pytest.importorskip("aiperf.dataset.loader.models", reason=reason)
    weka = pytest.importorskip("aiperf.dataset.loader.weka_trace_models", reason=reason)
    records = pytest.importorskip("aiperf.common.models.record_models", reason=reason)
    for source, form in ((trace, "mooncake"), (small, "agentic-rows")):
        exported(source, "--as", form, "-o", tmp_path / form)
        for row in (tmp_path / form).read_text(encoding="utf-8").splitlines():
            loader.MooncakeTrace.model_validate_json(row)
    exported(small, "--as", "weka", "-o", tmp_path / "weka.jsonl")
    for line in (tmp_path / "weka.jsonl").read_text(encoding="utf-8").splitlines():
        assert len(weka.WekaTrace.model_validate_json(line).requests) == 2
    results = tmp_path / "profile_export.jsonl"
    kvcliff("run", small, "--points", "2", "--seeds", "1", "--quick", "--json", "--export", f"aiperf:{results}")
    lines = results.read_text(encoding="utf-8").splitlines()
    assert len([records.MetricRecordInfo.model_validate_json(line) for line in lines]) == 4


class WholeVocabulary:
    """A tokenizer as vLLM's replay asks for one."""

    all_special_ids: tuple[int, ...] = ()

    def get_vocab(self) -> dict[str, int]:
        """Return 50,000 tokens."""
        return {str(token): token for token in range(50_000)}


def test_vllm_makes_prompts_that_share_what_ours_do(small: Path, tmp_path: Path) -> None:
    """Its replay draws tokens by block id: an unlimited cache of the engine's blocks finds as many of them again."""
    datasets = pytest.importorskip("vllm.benchmarks.datasets.datasets", reason="vllm is not installed")
    printed = json.loads(
        exported(small, "--as", "vllm-bench", "--level", "2", "-o", tmp_path / "f.sh", "--json").stdout
    )
    labels = {name: name for name in ("timestamp", "input_length", "output_length", "hash_ids")}
    trace = datasets.TimedTrace(
        dataset_path=str(tmp_path / "f.2.jsonl"),
        random_seed=0,
        timed_trace_chunk_hash_size=16,
        timed_trace_sec_multiplier=0.001,
        **{f"timed_trace_label_{name}": label for name, label in labels.items()},
    )
    prompts = [tuple(sample.prompt) for sample in trace.sample(WholeVocabulary(), 100)]
    fronts: set[tuple[int, ...]] = set()
    hit_tokens = 0
    for prompt in prompts:
        mine = [prompt[:end] for end in range(16, len(prompt) + 1, 16)]
        hit_tokens += 16 * sum(front in fronts for front in mine)
        fronts.update(mine)
    assert sum(map(len, prompts)) == printed["prompt_tokens"]
    assert hit_tokens / printed["prompt_tokens"] == pytest.approx(printed["infinite_cache_hit_rate"])


def test_inference_perf_takes_the_document(small: Path, tmp_path: Path) -> None:
    """Its own configuration, strict about unknown keys."""
    config = pytest.importorskip("inference_perf.config", reason="inference-perf is not installed")
    import yaml

    exported(small, "--as", "conversation-replay", "-o", tmp_path / "c.yaml")
    document: dict[str, Any] = yaml.safe_load((tmp_path / "c.yaml").read_text(encoding="utf-8"))
    found = config.Config(**document)
    assert found.data.conversation_replay.shared_system_prompt_len == 512
    assert [stage.concurrency_level for stage in found.load.stages] == [1, 2]


def test_distributions_without_a_name_are_fitted(small: Path, tmp_path: Path) -> None:
    """And an exponential is the lognormal of its mean and deviation."""
    flags = ("--set", "workload.think_s={kind: exponential, mean: 5}")
    exported(small, *flags, "--as", "conversation-replay", "-o", tmp_path / "c.yaml")
    text = (tmp_path / "c.yaml").read_text(encoding="utf-8")
    assert "mean: 5.0\n      std_dev: 5.0" in text
