"""Written and read back by our own readers: the same load, and the same results."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import kvcliff
from trace_files import SAMPLES, by_session, needs_samples, requests_of

from calibrate.measured.read import read_measured
from workloads.export.blocks import BlockNames
from workloads.traces.request import TraceRequest

SCENARIO = """
name: talk
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine: {kv_cache_dtype: fp8, kv_cache_tokens: 60000, max_model_len: 8192}
workload:
  shared_prefix_tokens: 1000
  turns: 4
  new_tokens: {kind: uniform, low: 50, high: 300}
  output_tokens: 12
  think_s: {kind: exponential, mean: 3}
load: {kind: closed, sessions: [2, 3], start: {kind: common, jitter_s: 0.5}}
stop: {sessions_per_client: 2}
seeds: 1
"""


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Return a scenario of conversations with pauses."""
    path = tmp_path / "talk.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def written(source: Path, form: str, output: Path, *flags: str) -> dict[str, Any]:
    """Export, and return what was printed."""
    result = kvcliff("export", source, "--as", form, "-o", output, "--json", *flags)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def hits(requests: Iterable[TraceRequest], block_tokens: int) -> int:
    """Return the tokens that a cache without limit finds."""
    names = BlockNames(block_tokens)
    return sum(names.of(one).hit_tokens for one in requests)


def told(request: TraceRequest) -> tuple[Any, ...]:
    """Return what a request says beside its content and its times."""
    return (request.prompt_tokens, request.output_tokens, request.session, request.parent, request.after)


@needs_samples
def test_mooncakes_own_requests_come_back(tmp_path: Path) -> None:
    """Times, lengths and sharing, to the token."""
    source, copy = SAMPLES / "mooncake" / "conversation_lines_00001-02500.jsonl", tmp_path / "copy.jsonl"
    printed = written(source, "mooncake", copy)
    before, after = requests_of(source), requests_of(copy)
    assert [(one.at_s, *told(one)) for one in after] == [(one.at_s, *told(one)) for one in before]
    assert hits(after, 512) == hits(before, 512)
    assert printed["infinite_cache_hit_rate"] == pytest.approx(0.3061, abs=5e-5)  # as counted independently


@needs_samples
@pytest.mark.parametrize("name", ["copy.jsonl", "folder"])
def test_claude_code_sessions_come_back(tmp_path: Path, name: str) -> None:
    """With their subagents, pauses, server times and drivers; as lines and as a folder."""
    printed = written(SAMPLES / "weka_cc", "weka", tmp_path / name, "--sessions", "12")
    before, after = (by_session(requests_of(path)) for path in (SAMPLES / "weka_cc", tmp_path / name))
    before = {session: turns for session, turns in before.items() if session in after}
    assert list(before) == list(after)
    assert sum(1 for session in after if "/" not in str(session)) == 12
    assert any(one.parent for turns in after.values() for one in turns)
    for session, turns in before.items():
        again = after[session]
        assert [told(one) for one in again] == [told(one) for one in turns]
        assert [one.gap_s for one in again] == [one.gap_s for one in turns]
        assert [one.api_s for one in again] == [one.api_s for one in turns]
        assert [one.at_s for one in again] == pytest.approx([one.at_s for one in turns], abs=2e-6)
        assert {(one.driver, new.driver) for one, new in zip(turns, again, strict=True)} <= {
            ("human", "human"),
            ("tool", "tool"),
            (None, None),
        }
        assert [one.shared_tokens for one in again] == [one.shared_tokens for one in turns]
    assert printed["sessions"] == len(before)
    every = [[one for turns in side.values() for one in turns] for side in (before, after)]
    local = [[one._replace(shared_tokens=0) for one in side] for side in every]
    assert hits(local[0], 64) == hits(local[1], 64)
    assert hits(every[0], 64) == hits(every[1], 64)


@needs_samples
def test_aiperfs_own_rows_come_back(tmp_path: Path) -> None:
    """Deltas and pauses; what is new in a later turn is nobody else's there either."""
    source, copy = SAMPLES / "aiperf_agentic_code" / "dataset_40_sessions_seed42.jsonl", tmp_path / "copy.jsonl"
    written(source, "agentic-rows", copy, "--sessions", "10")
    after = requests_of(copy)
    before = requests_of(source, limit=len(after))
    assert [(*told(one), one.gap_s, one.at_s) for one in after] == [(*told(one), one.gap_s, one.at_s) for one in before]
    assert hits(after, 512) == hits(before, 512)
    assert hits(after, 16) == pytest.approx(hits(before, 16), rel=1e-4)  # but for fronts of blocks that end early


@pytest.mark.parametrize("block_tokens", ["16", "512"])
def test_a_simulated_load_comes_back(talk: Path, tmp_path: Path, block_tokens: str) -> None:
    """At the times at which the simulation sent it, with the sharing of its blocks."""
    copy = tmp_path / "m.jsonl"
    flags = ("--times", "simulated", "--block-tokens", block_tokens, "--level", "3")
    printed = written(talk, "mooncake", copy, *flags)
    found = requests_of(copy, block_tokens=int(block_tokens))
    assert len(found) == printed["requests"] == 3 * 2 * 4
    assert hits(found, int(block_tokens)) / printed["prompt_tokens"] == printed["infinite_cache_hit_rate"]
    turns = tmp_path / "out" / "talk" / "turns.csv"
    assert kvcliff("run", talk, "--points", "3", "--quick", "--out", tmp_path / "out").exit_code == 0
    rows = [line.split(",") for line in turns.read_text(encoding="utf-8").splitlines()]
    sent = sorted(float(row[rows[0].index("arrival_s")]) for row in rows[1:])
    assert [one.at_s for one in found] == pytest.approx(sent, abs=1e-6)


@pytest.mark.parametrize(("form", "name"), [("weka", "w.jsonl"), ("agentic-rows", "a.jsonl")])
def test_sessions_are_the_same_drawn_and_simulated(talk: Path, tmp_path: Path, form: str, name: str) -> None:
    """Lengths and pauses; a simulation adds when, and how long answers took."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    drawn, sent = tmp_path / "one" / name, tmp_path / "two" / name
    written(talk, form, drawn)
    written(talk, form, sent, "--times", "simulated")
    before, after = by_session(requests_of(drawn)), by_session(requests_of(sent))
    assert set(before) == set(after)
    for session, turns in before.items():
        assert [(*told(one), one.gap_s) for one in turns] == [(*told(one), one.gap_s) for one in after[session]]
    assert len(before) == 6
    pauses = [one.gap_s for turns in before.values() for one in turns if one.gap_s]
    assert len(pauses) == 18
    if form == "weka":
        assert all(one.api_s for turns in after.values() for one in turns)
        assert {one.shared_tokens for turns in after.values() for one in turns} == {1000}


def test_rows_of_sessions_hold_every_token_of_their_past(talk: Path, tmp_path: Path) -> None:
    """All of a prompt was sent before but what its turn adds and the answer before it, and the shared front."""
    copy = tmp_path / "a.jsonl"
    written(talk, "agentic-rows", copy, "--block-tokens", "8", "--level", "2")
    found = requests_of(copy, block_tokens=8)
    by_name = by_session(found)
    rows = [json.loads(line) for line in copy.read_text(encoding="utf-8").splitlines()]
    assert hits(found, 1) == sum(
        (1000 if place else 0) + sum(one.prompt_tokens for one in turns[1:]) - sum(new) - 12 * len(new)
        for place, (turns, new) in enumerate(
            (turns, [row["input_length"] for row in rows if row["session_id"] == name and "delay" in row])
            for name, turns in by_name.items()
        )
    )


def test_a_replay_document_is_read_as_the_scenario_says(talk: Path, tmp_path: Path) -> None:
    """Distributions and stages; our reader draws conversations of the same lengths."""
    copy = tmp_path / "c.yaml"
    written(talk, "conversation-replay", copy)
    document = yaml.safe_load(copy.read_text(encoding="utf-8"))
    assert document["load"]["stages"] == [
        {"num_requests": 16, "concurrency_level": 2},
        {"num_requests": 24, "concurrency_level": 3},
    ]
    replay = document["data"]["conversation_replay"]
    assert replay["shared_system_prompt_len"] == 1000
    assert replay["input_tokens_per_turn"] | {"std_dev": 0} == {
        "type": "uniform",
        "min": 50,
        "max": 300,
        "mean": 175.0,
        "std_dev": 0,
    }
    found = by_session(requests_of(copy))
    assert len(found) == 6
    for turns in found.values():
        assert len(turns) == 4
        assert {one.output_tokens for one in turns} == {12}
        assert 1050 <= turns[0].prompt_tokens <= 1300


@needs_samples
def test_fitted_sessions_have_the_traces_means(tmp_path: Path) -> None:
    """Turns, answers and pauses of Claude Code; the shared front is near the median of what the files say."""
    copy = tmp_path / "c.yaml"
    written(SAMPLES / "weka_cc", "conversation-replay", copy)
    replay = yaml.safe_load(copy.read_text(encoding="utf-8"))["data"]["conversation_replay"]
    requests = requests_of(SAMPLES / "weka_cc")
    assert replay["turns_per_conversation"]["mean"] == pytest.approx(len(requests) / len(by_session(requests)))
    answers = [one.output_tokens for one in requests]
    assert replay["output_tokens_per_turn"]["mean"] == pytest.approx(sum(answers) / len(answers))
    assert 12_000 < replay["shared_system_prompt_len"] < 17_000


def test_results_are_read_back_as_they_were_simulated(talk: Path, tmp_path: Path) -> None:
    """By the readers of measured results: the three formats of one run say the same."""
    names = {"vllm-bench": "b.jsonl", "vllm-bench-detailed": "d.jsonl", "aiperf": "{level}.jsonl"}
    names["prometheus"] = "{level}.prom"
    flags = [part for form, name in names.items() for part in ("--export", f"{form}:{tmp_path / name}")]
    result = kvcliff("run", talk, "--quick", "--json", *flags)
    assert result.exit_code == 0, result.output
    points = json.loads(result.stdout)["points"]
    for name in ("b.jsonl", "d.jsonl"):
        runs = read_measured([tmp_path / name])
        assert [run.load.concurrency for run in runs] == [2, 3]
        for run, point in zip(runs, points, strict=True):
            for key in ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "itl_p99_s", "e2e_p99_s", "requests_per_s"):
                assert run.metrics[key] == pytest.approx(point[key], rel=1e-9), key
            assert (run.completed, run.failed) == (point["requests"], 0)
            assert run.duration_s == point["duration_s"]
    for point in points:
        (run,) = read_measured([tmp_path / f"{point['sessions']}.jsonl"])
        for key in ("ttft_p50_s", "ttft_p99_s", "e2e_p50_s", "e2e_p99_s"):
            assert run.metrics[key] == pytest.approx(point[key], rel=1e-6), key
        assert len({request.session for request in run.requests}) == 2 * point["sessions"]
        assert sum(request.hit_tokens or 0 for request in run.requests) == pytest.approx(
            point["prefix_hit_rate"] * sum(request.prompt_tokens for request in run.requests)
        )
        (scraped,) = read_measured([tmp_path / f"{point['sessions']}.prom"])
        assert scraped.completed == point["requests"]
        assert scraped.metrics["prefix_hit_rate"] == pytest.approx(point["prefix_hit_rate"])
