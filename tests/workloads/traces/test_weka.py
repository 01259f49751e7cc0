"""WEKA sessions: the samples against independent counts, subagents, and what may be missing."""

import csv
import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.trace_files import SAMPLES, by_session, needs_samples, notes_of, refusal_of, requests_of, write_rows
from workloads.traces.format import Clock
from workloads.traces.open import open_trace
from workloads.traces.request import HUMAN, TOOL, BlockIds, TraceRequest

FOLDER = SAMPLES / "weka_cc"
SUMMARY = SAMPLES / "weka_cc_derived" / "weka_session_summary.csv"


def call(tokens: int = 130, **more: Any) -> dict[str, Any]:
    """Return a request of two full blocks and a tail."""
    return {"t": 0.0, "type": "n", "in": tokens, "out": 5, "hash_ids": list(range(tokens // 64)), **more}


def session(*requests: Any, **more: Any) -> dict[str, Any]:
    """Return a session."""
    return {"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": list(requests), **more}


def agent(*requests: Any, **more: Any) -> dict[str, Any]:
    """Return a subagent's entry."""
    return {"type": "subagent", "t": 9.0, "agent_id": "x", "requests": list(requests), **more}


def ids_of(request: TraceRequest) -> list[Any]:
    """Return the ids of a request's blocks."""
    assert isinstance(request.content, BlockIds)
    return list(request.content.ids)


@needs_samples
def test_a_cache_that_forgets_nothing_hits_what_was_counted_independently() -> None:
    """0.9531 of 80.6 M tokens of the main agents, each in its session; 3.75 M distinct ones."""
    hit = total = distinct = 0
    for requests in by_session(requests_of(FOLDER)).values():
        if requests[0].parent is not None:
            continue
        seen: set[Any] = set()
        for one in requests:
            ids = ids_of(one)
            front = next((place for place, block in enumerate(ids) if block not in seen), len(ids))
            hit += min(front * 64, one.prompt_tokens)
            total += one.prompt_tokens
            seen.update(ids)
        distinct += len(seen) * 64
    assert total == 80_629_211
    assert hit / total == pytest.approx(0.9531, abs=5e-5)
    assert distinct == pytest.approx(3.75e6, rel=2e-3)


@needs_samples
def test_every_session_agrees_with_its_row_of_the_summary() -> None:
    """Requests, tokens, turns, times and subagents, within a hundredth."""
    sessions = by_session(requests_of(FOLDER))
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    main = {name: requests for name, requests in sessions.items() if requests[0].parent is None}
    assert len(main) == 27
    for name, requests in main.items():
        below = [others for others in sessions.values() if others[0].parent == name]
        prompts = [one.prompt_tokens for one in requests]
        found = {
            "requests": len(requests),
            "subagents": len(below),
            "sub_requests": sum(map(len, below)),
            "first_in": prompts[0],
            "last_in": prompts[-1],
            "max_in": max(prompts),
            "sum_in": sum(prompts),
            "sum_out": sum(one.output_tokens for one in requests),
            "duration_s": max((one.at_s or 0) + (one.api_s or 0) for one in requests),
            "think_p50_s": median(one.gap_s or 0.0 for one in requests[1:]),
            "user_turns": sum(one.driver == HUMAN for one in requests),
        }
        row = rows[str(name)]
        shared = int(row["tool_tokens"]) + int(row["system_tokens"])
        assert all(one.shared_tokens == min(shared, one.prompt_tokens) for one in requests)
        for column, value in found.items():
            assert value == pytest.approx(float(row[column]), rel=0.01, abs=1e-9), (name, column)


@needs_samples
def test_subagents_of_the_sample_run_side_by_side_below_their_parent() -> None:
    """Three start after the first request, share ids with each other, and have times of their own."""
    path = FOLDER / "trace_0274.json"
    entries = [one for one in json.loads(path.read_bytes())["requests"] if one["type"] == "subagent"]
    requests = requests_of(path)
    assert [one.row for one in requests] == list(range(1, 106))
    sessions = by_session(requests)
    below = {name: others for name, others in sessions.items() if others[0].parent}
    assert list(below) == [f"trace_0274/agent_00{number}" for number in (1, 2, 3)]
    assert {(one.parent, one.after) for others in below.values() for one in others} == {("trace_0274", 1)}
    for entry, others in zip(entries, below.values(), strict=True):
        assert len(others) == len(entry["requests"])
        assert others[0].at_s == 0.0
        assert others[0].shared_tokens == 0
        assert isinstance(others[0].content, BlockIds)
        assert others[0].content.scope == "trace_0274"
    first = [ids_of(others[0])[0] for others in below.values()]
    assert len(set(first)) == 1
    assert {one.driver for one in requests} == {HUMAN, TOOL}
    assert open_trace(path).format.clock is Clock.SESSION


def test_nested_subagents_are_sessions_of_their_own(tmp_path: Path) -> None:
    """Each knows its parent and how many requests of that came before; equal names are told apart."""
    inner = agent(call(t=100), call(t=101), agent_id=None)
    path = write_rows(
        tmp_path / "s.json",
        [session(call(), agent(call(t=50), inner, call(t=55)), agent(call()), call(t=10, think_time=4.0), agent())],
    )
    requests = requests_of(path)
    assert [(one.row, one.session, one.parent, one.after, one.at_s) for one in requests] == [
        (1, "s", None, None, 0.0),
        (2, "s/x", "s", 1, 0.0),
        (3, "s/x/subagent", "s/x", 1, 0.0),
        (4, "s/x/subagent", "s/x", 1, 1.0),
        (5, "s/x", "s", 1, 5.0),
        (6, "s/x#2", "s", 1, 0.0),
        (7, "s", None, None, 10.0),
    ]
    assert {one.content.scope for one in requests if isinstance(one.content, BlockIds)} == {"s"}
    assert [one.gap_s for one in requests if one.session == "s"] == [None, 4.0]
    assert "contains their time" in notes_of(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_session_may_lack_all_but_lengths(tmp_path: Path, indent: int | None) -> None:
    """Then the file names it, blocks are of 64 tokens, and times are unknown; null is as good as missing."""
    bare = {"requests": [{"in": 100, "out": 0}, {"in": 200, "hash_ids": None, "think_time": None, "input_types": None}]}
    path = tmp_path / "own_name.json"
    path.write_text(json.dumps({**bare, "tool_tokens": None, "totals": None}, indent=indent), encoding="utf-8")
    requests = requests_of(path)
    assert [(one.session, one.prompt_tokens, one.output_tokens) for one in requests] == [
        ("own_name", 100, 1),
        ("own_name", 200, 1),
    ]
    assert {(one.at_s, one.content, one.gap_s, one.driver, one.shared_tokens) for one in requests} == {
        (None, None, None, None, 0)
    }
    assert "answers of 0 tokens count as 1" in notes_of(path)


def test_lines_are_sessions_too(tmp_path: Path) -> None:
    """Those without a name are named by file and line; ids of two have nothing in common."""
    path = write_rows(tmp_path / "many.jsonl", [session(call(), id="a"), session(call(), id=None), session(call())])
    requests = requests_of(path)
    assert [(one.row, one.session) for one in requests] == [(1, "a"), (2, "many-2"), (3, "s")]
    assert len({one.content.scope for one in requests if isinstance(one.content, BlockIds)}) == 3
    write_rows(path, [session(call(), hash_id_scope="global")])
    assert requests_of(path)[0].content == BlockIds([0, 1], 64)


def test_totals_that_do_not_add_up_are_noted(tmp_path: Path) -> None:
    """The requests are right."""
    totals = {"parent_tokens": {"input": 130, "output": 5}}
    path = write_rows(tmp_path / "a", [session(call(), totals=totals)])
    assert "totals" not in notes_of(path)
    totals["parent_tokens"]["input"] = 131
    assert "totals are not the sums" in notes_of(write_rows(path, [session(call(), totals=totals)]))
    for other in (5, [], {"parent_tokens": 5}, {"parent_tokens": {"input": [130]}}):
        assert len(requests_of(write_rows(path, [session(call(), totals=other)]))) == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (call(0), "request 2: in: expected int >= 1"),
        (call(10**9), "request 2: in: expected int <= 10000000"),
        ({"t": 1, "out": 3}, "request 2: key missing: in"),
        (call(hash_ids=[1, 2, 3, 4]), "request 2: 4 hash_ids, where 130 tokens are 3 blocks of 64 tokens"),
        (call(t=-1), "request 2: t: expected float >= 0.0"),
        (call(t=1e300), "request 2: t: expected float <="),
        (call(think_time="long"), "request 2: think_time: expected float | null, got str"),
        ([], "request 2: expected object, got array"),
    ],
)
def test_a_bad_request_is_named_or_skipped(tmp_path: Path, bad: object, message: str) -> None:
    """The rest of the session stays."""
    path = write_rows(tmp_path / "a", [session(call(), bad, call(t=3.0))])
    assert f"{path}:1: session 's', {message}" in refusal_of(path)
    assert [one.row for one in requests_of(path, skip_bad_rows=True)] == [1, 3]


def test_times_of_an_agent_ascend(tmp_path: Path) -> None:
    """A subagent's are its own."""
    path = write_rows(tmp_path / "a", [session(call(t=5), agent(call(t=1)), call(t=4))])
    assert "request 3: t 4 is before the 5 of a request above it" in refusal_of(path)


def test_a_subagent_takes_no_name_that_is_another_sessions(tmp_path: Path) -> None:
    """Whatever ids its neighbours have."""
    agents = [agent(call()), agent(call(), agent_id="x#2"), agent(call()), agent(call())]
    requests = requests_of(write_rows(tmp_path / "a", [session(call(), *agents)]))
    assert [one.session for one in requests] == ["s", "s/x", "s/x#2", "s/x#3", "s/x#4"]


def test_a_session_twice_is_refused(tmp_path: Path) -> None:
    """In a file, with both lines; in a folder, with both files."""
    path = write_rows(tmp_path / "a.jsonl", [session(call()), session(call())])
    assert f"{path}:2: session 's' is there twice, first in line 1" in refusal_of(path)
    assert len(requests_of(path, skip_bad_rows=True)) == 1
    write_rows(path, [session(call())])
    write_rows(tmp_path / "b.json", [session(call())])
    assert "b.json:1: session 's' is in a.jsonl already" in refusal_of(tmp_path)


def test_a_file_cut_short_and_one_nested_without_end_are_refused(tmp_path: Path) -> None:
    """In one line each."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps(session(call(), call()))[:-40], encoding="utf-8")
    assert refusal_of(path).startswith(f"{path}:1: ")
    assert "cut short" in refusal_of(path, format="weka")
    nested: dict[str, Any] = call()
    for _ in range(60):
        nested = agent(nested)
    path.write_text(json.dumps(session(call(), nested)), encoding="utf-8")
    assert "subagents within subagents" in refusal_of(path)
    assert len(requests_of(path, skip_bad_rows=True)) == 1
    path.write_text('{"id": "a", "requests": ' + "[" * 100_000, encoding="utf-8")
    assert "no JSON, or cut short" in refusal_of(path)
    assert "nested too deep" in refusal_of(path, format="weka")
