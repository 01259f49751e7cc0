"""Recorded sessions in a scenario, from the file to the knee, and what is said of rules that fit none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_sessions import FILE, lines
from command_line import kvcliff, python

SCENARIO = f"""
name: agents
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine: {{kv_cache_dtype: fp8, kv_cache_tokens: 100000, max_model_len: 40960}}
replay: {{path: {FILE}}}
load: {{kind: closed, sessions: [2, 8]}}
stop: {{duration_s: 200}}
slo: {{ttft_p99_s: 2.0}}
seeds: 2
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """Return a scenario that replays the made-up agents."""
    path = tmp_path / "agents.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def result_of(path: Path, *changes: str) -> dict[str, Any]:
    """Return a quick run's JSON."""
    flags = [flag for change in changes for flag in ("--set", change)]
    result = kvcliff("run", path, "--quick", "--json", *flags)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_made_up_agents_are_what_their_script_writes() -> None:
    """Small, and of this seed."""
    assert FILE.read_text("utf-8") == "".join(lines())
    assert FILE.stat().st_size < 100_000


def test_a_replay_has_a_knee_a_cause_and_a_division_by_hand(agents: Path) -> None:
    """As drawn sessions have: what the pool holds is four sessions at their deepest."""
    result = kvcliff("run", agents, "--out", agents.parent / "out", "--json", "--set", "stop.duration_s=1000")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["load_unit"] == "sessions"
    assert found["knee_sessions"] == 8
    assert found["knee_cause"] == "KV cache"
    assert 2 < found["arithmetic_sessions"] <= 6
    few, many = found["points"]
    assert few["prefix_hit_rate"] > many["prefix_hit_rate"] > 0
    assert few["refused"] == many["refused"] == 0
    folder = agents.parent / "out" / "agents"
    rows = (folder / "turns.csv").read_text("utf-8").splitlines()
    assert rows[0].startswith("sessions,population,session,turn,depth,")
    assert any("/search" in row for row in rows)
    assert (folder / "cliff.png").exists()


def test_the_result_says_where_its_sessions_are_from_and_what_rules_changed(agents: Path) -> None:
    """Path, format, digest, rules, and a count of each change."""
    trace = result_of(agents)["provenance"]["trace"]
    assert trace["path"] == str(FILE)
    assert (trace["format"], trace["sessions"], trace["subagents"], trace["bad_rows"]) == ("weka", 12, 4, 0)
    assert len(trace["sha256"]) == 64
    assert trace["rules"]["ids"] == "local"
    assert trace["rules"]["max_context_tokens"] == 40960
    assert trace["changes"]["ended"] == 3
    assert trace["changes"]["capped_gaps"] == 0
    assert trace["shared_front_tokens"] == 14_900
    capped = result_of(agents, "replay.gap_cap_s=5")["provenance"]["trace"]
    assert capped["changes"]["capped_gaps"] > 100


def test_the_terminal_says_it_too(agents: Path) -> None:
    """In words."""
    result = kvcliff("run", agents, "--quick", "--out", agents.parent / "out", "--set", "replay.gap_cap_s=5")
    text = " ".join(result.stdout.split())
    assert "replay: 12 sessions and 4 subagents of " in text
    assert "each turn thinks after its simulated answer" in text
    assert "pauses cut to 5 s (" in text
    assert "3 sessions end before 40,960 tokens (" in text
    assert "100% of a common front is shared (up to 14,900 tokens)" in text
    assert "read as weka: ids are of full 1024-token blocks" in text


def test_rules_change_what_is_found(agents: Path) -> None:
    """Less shared, fewer hits; all shared, more; pauses cut, more requests."""
    (own, *_), (apart, *_), (all_alike, *_), (quick, *_) = (
        result_of(agents, *changes)["points"]
        for changes in ([], ["replay.shared_prefix_share=0"], ["replay.ids=keep"], ["replay.gap_cap_s=1"])
    )
    assert apart["prefix_hit_rate"] < own["prefix_hit_rate"]
    assert quick["requests"] > 1.5 * own["requests"]
    assert all_alike["prefix_hit_rate"] > own["prefix_hit_rate"]


def test_the_same_seed_gives_the_same_bytes(agents: Path) -> None:
    """In this process and another."""
    code = "import sys; from sim.cli import main; main(sys.argv[1:])"
    arguments = ("run", str(agents), "--quick", "--json")
    assert python("-c", code, *arguments).stdout == kvcliff(*arguments).stdout


def test_sessions_may_arrive_from_outside(agents: Path) -> None:
    """So many a minute."""
    found = result_of(agents, "load={kind: poisson, sessions_per_minute: [1]}")
    assert found["load_unit"] == "sessions per minute"
    assert found["points"][0]["requests"] > 0


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("replay.idz=keep", "replay.idz is not a known key (did you mean 'ids'?)"),
        ("replay.ids=keeps", "replay.ids 'keeps' is not one of keep, local, rename (did you mean 'keep'?)"),
        ("replay.times=recordet", "(did you mean 'recorded'?)"),
        ("replay.outputs_reusable=auti", "(did you mean 'auto'?)"),
        ("replay.too_long=cut", "replay.too_long 'cut' is not one of"),
        ("replay.shared_prefix_share=1.5", "replay.shared_prefix_share 1.5 must be <= 1"),
        ("replay.share=0", "replay.share 0 must be > 0"),
        ("replay.sessions=0", "replay.sessions 0 must be >= 1"),
        ("replay.gap_cap_s=0", "replay.gap_cap_s 0 must be > 0"),
        ("replay.format=wekka", "replay.format 'wekka' is not one of"),
        ("replay.path=nowhere.json", "nowhere.json: there is no such file"),
        ("replay.max_context_tokens=100", "no sessions are left to replay; all are longer than 100 tokens"),
        ("replay.share=1e-9", "agents.jsonl: no sessions are left to replay of a share of 1e-09 with seed 0"),
        ("replay.block_tokens=0", "replay.block_tokens 0 must be >= 1"),
        (
            "workload={shared_prefix_tokens: 0, turns: 1, new_tokens: 1, output_tokens: 1}",
            "replay has no place beside workload",
        ),
        ("stop=null", "stop is required but missing"),
    ],
)
def test_rules_that_fit_nothing_are_refused(refused: Callable[..., str], agents: Path, key: str, said: str) -> None:
    """In one line that names the key and the nearest valid name, with nothing written."""
    assert said in refused(agents, "--set", key)


def test_a_path_counts_from_the_scenario_or_from_where_the_command_runs(
    agents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shell completes it; what lies beside the scenario goes first."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "mine.jsonl").write_text(FILE.read_text("utf-8"), encoding="utf-8")
    assert result_of(agents, "replay.path=mine.jsonl")["provenance"]["trace"]["path"] == "mine.jsonl"
    (agents.parent / "mine.jsonl").write_text(FILE.read_text("utf-8"), encoding="utf-8")
    beside = result_of(agents, "replay.path=mine.jsonl")["provenance"]["trace"]["path"]
    assert beside == str(agents.parent / "mine.jsonl")


def test_a_trace_without_sessions_is_refused(refused: Callable[..., str], agents: Path) -> None:
    """With the row of the first request of none."""
    (agents.parent / "t.csv").write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n", encoding="utf-8")
    assert "t.csv:2: a request of no session: a replay needs sessions" in refused(agents, "--set", "replay.path=t.csv")


def test_a_cut_file_names_its_row_unless_bad_rows_are_skipped(refused: Callable[..., str], agents: Path) -> None:
    """Then they are counted."""
    whole = FILE.read_text("utf-8").splitlines()
    (agents.parent / "cut.jsonl").write_text("\n".join([*whole[:3], whole[3][:500]]), encoding="utf-8")
    assert "cut.jsonl:4: " in refused(agents, "--set", "replay.path=cut.jsonl")
    trace = result_of(agents, "replay.path=cut.jsonl", "replay.skip_bad_rows=true")["provenance"]["trace"]
    assert (trace["sessions"], trace["bad_rows"]) == (3, 1)


def test_a_run_without_a_trace_loads_no_reader(tmp_path: Path) -> None:
    """Nor does one of sessions that are drawn."""
    code = (
        "import sys, sim.commands.levels, sim.run, sim.setup, sim.report.sentences, sim.json_output\n"
        "print([name for name in sys.modules if name.startswith('workloads.traces.')])"
    )
    assert python("-c", code).stdout.strip() == "[]"
