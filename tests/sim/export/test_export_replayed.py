"""Recorded sessions that a simulation lived through, exported: what it sent, when, and who belongs to whom."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import kvcliff
from trace_files import by_session, requests_of

from workloads.export.blocks import BlockNames
from workloads.traces.request import TraceRequest

AGENTS = Path(__file__).resolve().parents[3] / "scenarios" / "l4-replayed-agents.yaml"
SHORT = ("--set", "stop.duration_s=300")


def written(form: str, output: Path, *flags: str, block_tokens: int | None = None) -> list[TraceRequest]:
    """Export six users, and return what is read from the file."""
    flags = flags if block_tokens is None else (*flags, "--block-tokens", str(block_tokens))
    simulated = ("--times", "simulated", "--level", "6", *SHORT, *flags)
    result = kvcliff("export", AGENTS, "--as", form, "-o", output, "--json", *simulated)
    assert result.exit_code == 0, result.output
    return requests_of(output, block_tokens=block_tokens)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the same six users, and return the folder."""
    folder = tmp_path_factory.mktemp("run")
    flags = ("--points", "6", "--seeds", "1", "--quick", "--export", f"aiperf:{folder}/a.jsonl", *SHORT)
    result = kvcliff("run", AGENTS, "--out", folder, *flags)
    assert result.exit_code == 0, result.output
    return folder


def rows_of(run: Path) -> list[dict[str, str]]:
    """Return the turns that a run sent."""
    with (run / "l4-replayed-agents" / "turns.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_requests_are_those_of_the_run_at_their_times(run: Path, tmp_path: Path) -> None:
    """Subagents' too."""
    found = sorted((one.at_s, one.prompt_tokens) for one in written("mooncake", tmp_path / "m.jsonl"))
    sent = sorted((float(row["arrival_s"]), int(row["prompt_tokens"])) for row in rows_of(run))
    assert [tokens for _, tokens in found] == [tokens for _, tokens in sent]
    assert [at_s for at_s, _ in found] == pytest.approx([at_s for at_s, _ in sent], abs=1e-6)


@pytest.mark.parametrize("ids", ["local", "rename", "keep"])
def test_sessions_come_back_with_their_subagents(run: Path, tmp_path: Path, ids: str) -> None:
    """By lengths, pauses and the front that all share; ids of the file find what ids of the requests find."""
    found = written("weka", tmp_path / "w.jsonl", "--set", f"replay.ids={ids}")
    timed = written("mooncake", tmp_path / "m.jsonl", "--set", f"replay.ids={ids}", block_tokens=64)
    assert sum(one.prompt_tokens for one in found) == sum(one.prompt_tokens for one in timed)
    recorded = by_session(requests_of(AGENTS.parent / "traces" / "agents.jsonl"))
    for name, turns in by_session([one for one in found if one.parent is None]).items():
        assert turns[0].shared_tokens == recorded[str(name).rpartition(" ")[2]][0].shared_tokens
    subagents = {one.session: (one.parent, one.after) for one in found if one.parent is not None}
    assert subagents
    assert all(after for _, after in subagents.values())
    if ids == "keep":  # there several users share whole sessions, which ids of one session cannot say
        return
    names = BlockNames(64)
    hits = sum(names.of(one).hit_tokens for one in found) / sum(names.of(one).hit_tokens for one in timed)
    assert hits == pytest.approx(1, abs=0.02)
    if ids == "local":
        rows = [row for row in rows_of(run) if row["depth"] == "0"]
        assert set(by_session([one for one in found if one.parent is None])) == {row["session"] for row in rows}


def test_pauses_are_the_recorded_ones(tmp_path: Path) -> None:
    """After the simulated answers, as each user thought; of sessions with subagents they depend on these."""
    asked = by_session(requests_of(AGENTS.parent / "traces" / "agents.jsonl"))
    parents = {one.parent for turns in asked.values() for one in turns}
    compared = 0
    for name, turns in by_session(written("agentic-rows", tmp_path / "a.jsonl")).items():
        recorded = str(name).rpartition(" ")[2]
        if "/" not in recorded and recorded not in parents:
            gaps_s = [one.gap_s for one in asked[recorded][1 : len(turns)]]
            assert [one.gap_s for one in turns[1:]] == pytest.approx(gaps_s, abs=1e-5)
            compared += len(gaps_s)
    assert compared > 20


def test_recorded_sessions_without_a_simulation_are_refused_with_the_way_out(tmp_path: Path) -> None:
    """In one line, and nothing is written."""
    for form in ("weka", "agentic-rows", "conversation-replay", "mooncake"):
        result = kvcliff("export", AGENTS, "--as", form, "-o", tmp_path / "x", "--level", "2")
        assert result.exit_code == 2
        assert "add --times simulated" in result.output
        assert len(result.output.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_subagents_are_of_their_sessions_root(run: Path) -> None:
    """AIPerf's lines correlate a family, each session in it by itself."""
    lines = [json.loads(line)["metadata"] for line in (run / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    own: dict[str, Any] = {one["conversation_id"]: one["x_correlation_id"] for one in lines}
    assert {one["root_correlation_id"] for one in lines} <= set(own.values())
    below = [one for one in lines if one["agent_depth"]]
    assert below
    for one in lines:
        root = one["conversation_id"].partition("/")[0]
        assert one["root_correlation_id"] == own[root]
