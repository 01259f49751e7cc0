"""Sessions of a trace under the rules of a replay: pauses, cuts, subagents, and what users share."""

import json
from collections.abc import Iterable
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.errors import WorkloadError
from workloads.span import Span, total_tokens
from workloads.traces.open_loop import SendRules, read_trace
from workloads.traces.replay import Live, Replay, read_replay
from workloads.traces.request import TraceRequest
from workloads.traces.sessions import Changes, ReplayRules, gather
from workloads.traces.shared_content import turns_of

WEKA = Path(__file__).parents[4] / "shared" / "data" / "traces" / "weka_cc"
here = pytest.mark.skipif(not WEKA.exists(), reason="the sample of recorded sessions is not here")


def weka(path: Path, *sessions: dict[str, Any]) -> Path:
    """Write sessions in WEKA's format."""
    path.write_text("".join(json.dumps(one) + "\n" for one in sessions), encoding="utf-8")
    return path


def turn(t: float, prompt: int, out: int, think_s: float, *, api_s: float = 2.0, first: int = 1) -> dict[str, Any]:
    """Return a request whose ids count on from `first`."""
    ids = list(range(first, first + prompt // 64))
    return {"type": "s", "t": t, "in": prompt, "out": out, "hash_ids": ids, "api_time": api_s, "think_time": think_s}


def agent(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    """Return a subagent."""
    return {"type": "subagent", "agent_id": name, "t": 0, "requests": list(requests)}


def session(name: str, *requests: dict[str, Any], front: int = 0) -> dict[str, Any]:
    """Return a session."""
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "tool_tokens": front, "requests": list(requests)}


GROWING = session("a", turn(0, 200, 20, 0), turn(12, 300, 20, 10), turn(74, 400, 20, 60), front=100)
FLEET = session(
    "b",
    turn(0, 200, 20, 0),
    agent("x", turn(0, 90, 5, 0, first=50), turn(8, 160, 5, 6, first=50)),
    agent("y", turn(0, 90, 5, 0, api_s=1, first=70)),
    turn(32, 300, 20, 30),
    front=150,
)


def replayed(path: Path, **rules: Any) -> Replay:
    """Return the sessions of a file under some rules."""
    return read_replay(path, rules=ReplayRules(**rules))


def lived(replay: Replay, name: str, seed: int = 0) -> list[tuple[Span, ...]]:
    """Return the prompts of a session that somebody draws, subagents left out."""
    return [prompt.spans for _, prompt in replay.session(name, np.random.default_rng(seed)).prompts()]


def common(one: Iterable[Span], other: Iterable[Span]) -> int:
    """Return how many tokens two prompts have in common from the beginning."""
    points = [((span.content, span.start + n) for span in spans for n in range(span.length)) for spans in (one, other)]
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*points, strict=False)))


def test_turns_think_as_recorded_after_the_answer(tmp_path: Path) -> None:
    """Nobody waits before a session; a cap is a rule, and what it cut is counted."""
    path = weka(tmp_path / "t.jsonl", GROWING)
    (one,) = replayed(path).sessions
    assert [(turn.think_s, turn.due_s) for turn in one.turns] == [(0.0, None), (10.0, None), (60.0, None)]
    capped = replayed(path, gap_cap_s=20.0)
    assert [turn.think_s for turn in capped.sessions[0].turns] == [0.0, 10.0, 20.0]
    assert (capped.changes.capped_gaps, capped.changes.capped_s) == (1, 40.0)


def test_recorded_times_count_from_the_start_of_the_session(tmp_path: Path) -> None:
    """Without what a cap took out of a pause."""
    path = weka(tmp_path / "t.jsonl", GROWING)
    assert [turn.due_s for turn in replayed(path, times="recorded").sessions[0].turns] == [0.0, 12.0, 74.0]
    capped = replayed(path, times="recorded", gap_cap_s=20.0)
    assert [turn.due_s for turn in capped.sessions[0].turns] == [0.0, 12.0, 34.0]


def test_subagents_start_where_they_were_started_and_the_pause_after_them_is_what_they_left(tmp_path: Path) -> None:
    """The recorded 30 s hold the 10 s of the longer subagent."""
    replay = replayed(weka(tmp_path / "t.jsonl", FLEET))
    (one,) = replay.sessions
    assert [[sub.name for sub in turn.subagents] for turn in one.turns] == [[], ["b/x", "b/y"]]
    assert one.turns[1].think_s == pytest.approx(20.0)
    assert [sub.depth for sub in one.turns[1].subagents] == [1, 1]
    assert one.turns[1].subagents[0].turns[1].think_s == 6.0
    assert (replay.totals.sessions, replay.totals.subagents, replay.totals.requests) == (1, 2, 5)


@pytest.mark.parametrize(
    ("rule", "kept", "counted"),
    [
        ("end", [2, 2], {"ended": 1, "cut_turns": 1}),
        ("drop", [2], {"dropped": 1}),
        ("refuse", [3, 2], {"refused": 1}),
    ],
)
def test_sessions_that_outgrow_the_model_follow_the_rule(
    tmp_path: Path, rule: str, kept: list[int], counted: dict[str, int]
) -> None:
    """Cut where they do, left out, or sent to be refused; prompt and answer count together."""
    replay = replayed(weka(tmp_path / "t.jsonl", GROWING, FLEET), max_context_tokens=419, too_long=rule)
    assert [len(one.turns) for one in replay.sessions] == kept
    assert {name: getattr(replay.changes, name) for name in counted} == counted
    whole = replayed(tmp_path / "t.jsonl", max_context_tokens=420, too_long=rule)
    assert [len(one.turns) for one in whole.sessions] == [3, 2]
    with pytest.raises(WorkloadError, match="no sessions are left to replay; all are longer than 99 tokens"):
        replayed(tmp_path / "t.jsonl", max_context_tokens=99)


def test_clones_share_the_front_that_the_trace_names_and_nothing_else(tmp_path: Path) -> None:
    """As much of it as asked; with `keep` all that is numbered alike, the answers too."""
    path = weka(tmp_path / "t.jsonl", GROWING)
    for share, tokens in ((1.0, 100), (0.5, 50), (0.0, 0)):
        replay = replayed(path, shared_prefix_share=share)
        one, other = lived(replay, "one"), lived(replay, "other")
        assert {common(mine, theirs) for mine, theirs in zip(one, other, strict=True)} == {tokens}
        assert [common(before, after) for before, after in pairwise(one)] == [200, 300]
        assert total_tokens(replay.prefix) == tokens
    kept = replayed(path, ids="keep")
    assert lived(kept, "one") == lived(kept, "other")


def test_sessions_share_what_ids_of_one_scope_say(tmp_path: Path) -> None:
    """Clones too, but nothing of one session alone; renamed, not even sessions do."""
    one, other = dict(GROWING, hash_id_scope="global"), dict(FLEET, hash_id_scope="global")
    one, other = dict(one, tool_tokens=0), dict(other, tool_tokens=0)
    other["requests"] = [turn(0, 200, 20, 0), turn(9, 300, 20, 1, first=1)]
    other["requests"][1]["hash_ids"] = [1, 2, 3, 99]
    path = weka(tmp_path / "t.jsonl", one, other)
    local = replayed(path)
    mine, clone = lived(local, "one", 0), lived(local, "two", 0)
    theirs = next(found for seed in range(99) if len(found := lived(local, "three", seed)) != len(mine))
    assert common(mine[-1], clone[-1]) == 192
    assert common(mine[-1], theirs[-1]) == 192
    renamed = replayed(path, ids="rename")
    assert common(lived(renamed, "one", 0)[-1], lived(renamed, "two", 0)[-1]) == 0


def test_two_files_that_number_alike_share_only_where_ids_are_kept(tmp_path: Path) -> None:
    """`keep` is what merging files without renaming does."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b"):
        weka(folder / f"{name}.json", session(name, turn(0, 256, 5, 0)))
    for ids, tokens in (("local", 0), ("rename", 0), ("keep", 256)):
        replay = replayed(folder, ids=ids)
        one, other = (root.turns[0] for root in replay.sessions)
        found = [Live(root.name, root, "" if ids == "keep" else root.name, replay.shared) for root in replay.sessions]
        prompts = [next(live.prompts())[1].spans for live in found]
        assert common(*prompts) == tokens
        assert one.prompt_tokens == other.prompt_tokens


def test_a_share_is_of_whole_sessions_and_comes_before_their_number(tmp_path: Path) -> None:
    """The same every time, subagents with whoever started them."""
    many = [dict(FLEET, id=f"s{number}") for number in range(40)]
    path = weka(tmp_path / "t.jsonl", *many)
    some = replayed(path, share=0.5)
    assert 10 <= some.totals.sessions <= 30
    assert some.totals.subagents == 2 * some.totals.sessions
    assert some.sessions == replayed(path, share=0.5).sessions
    first = replayed(path, share=0.5, sessions=3)
    assert first.sessions == some.sessions[:3]
    with pytest.raises(WorkloadError, match="no sessions are left to replay"):
        replayed(path, share=1e-9)


def test_a_subagent_without_its_parent_is_a_session_and_a_circle_of_parents_is_refused() -> None:
    """No format here writes such a trace, but one may be cut so."""
    changes = Changes()
    lost = TraceRequest(1, 9, 1, session="a", parent="gone", after=3)
    (one,) = gather([lost], ReplayRules(), changes, "t")
    assert (one.name, one.depth, changes.orphans) == ("a", 0, 1)
    circle = [TraceRequest(1, 9, 1, session="a", parent="b"), TraceRequest(2, 9, 1, session="b", parent="a")]
    with pytest.raises(WorkloadError, match="t:1: session 'a' has parents that go round in a circle"):
        gather(circle, ReplayRules(), Changes(), "t")


def test_a_trace_without_sessions_is_refused(tmp_path: Path) -> None:
    """With the row."""
    path = tmp_path / "t.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"t\.csv:2: a request of no session: a replay needs sessions"):
        replayed(path)


def test_recorded_times_need_times(tmp_path: Path) -> None:
    """Closed loops need none."""
    rows = [{"session_id": "a", "input_length": 9, "output_length": 1, "timestamp": 0}]
    rows += [{"session_id": "a", "input_length": 9, "output_length": 1, "delay": 5000}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [turn.think_s for turn in replayed(path).sessions[0].turns] == [0.0, 5.0]
    with pytest.raises(WorkloadError, match=r"rows\.jsonl: session 'a': request 2 has no recorded time"):
        replayed(path, times="recorded")


@here
def test_a_folder_that_is_one_trace_is_replayed_and_sent() -> None:
    """Its digest is that of the files in it."""
    replay = replayed(WEKA.parent / "lmcache_agent_trace" / "miniswe")
    assert (replay.format, replay.totals.sessions, len(replay.digest)) == ("lmcache", 1, 64)
    assert read_trace(WEKA.parent / "servegen" / "language" / "m-large", rules=SendRules(limit=5)).totals.requests == 5


@here
def test_every_prompt_of_the_recorded_sessions_is_as_long_as_recorded() -> None:
    """27 sessions, 1,001 requests of the main agent, 5 subagents; 0.9531 of their tokens were sent before."""
    recorded = {
        (path.stem, n): entry
        for path in sorted(WEKA.glob("*.json"))
        for n, entry in enumerate(
            one for one in json.loads(path.read_text("utf-8"))["requests"] if one["type"] != "subagent"
        )
    }
    replay = replayed(WEKA, shared_prefix_share=0.0)
    assert (replay.totals.sessions, replay.totals.subagents) == (27, 5)
    assert len(recorded) == sum(len(root.turns) for root in replay.sessions) == 1001
    for root in replay.sessions:
        for n, turn_of in enumerate(root.turns):
            entry = recorded[root.name, n]
            assert total_tokens(turn_of.spans) == turn_of.prompt_tokens == entry["in"]
            assert turn_of.answer.length == max(entry["out"], 1)
            if n and not turn_of.subagents and entry.get("think_time") is not None:
                assert turn_of.think_s == entry["think_time"]
    growth = [
        (entry["in"] - recorded[name, n - 1]["in"], recorded[name, n - 1]["out"])
        for (name, n), entry in recorded.items()
        if n
    ]
    stripped = sum(0 <= grown < out for grown, out in growth)
    assert replay.changes.left_answers >= stripped
    assert replay.changes.kept_answers == pytest.approx(len(growth) - stripped, rel=0.1)


@here
def test_answers_are_in_the_next_prompt_where_it_has_room_for_them() -> None:
    """And it extends the last prompt to the token; never, where asked so."""
    for rule in ("auto", "never"):
        held = 0
        for root in replayed(WEKA, outputs_reusable=rule).sessions:
            for before, after in zip(root.turns, root.turns[1:], strict=False):
                answer = before.answer
                ends = [(span.content, span.start, span.start + span.length) for span in after.spans]
                whole = any(
                    content == answer.content and start <= answer.start and answer.start + answer.length <= end
                    for content, start, end in ends
                )
                held += whole
                assert not whole or after.prompt_tokens >= before.prompt_tokens + answer.length
        assert held > 800 if rule == "auto" else held == 0


@here
def test_what_was_sent_before_is_what_ids_say_and_answers_and_tails() -> None:
    """0.9531 of the tokens by ids alone, session by session; with answers a little more."""
    found = {}
    for rule in ("never", "auto"):
        seen = total = 0
        for root in replayed(WEKA, outputs_reusable=rule).sessions:
            reach: dict[object, int] = {}
            for turn_of in root.turns:
                for content, start, length in turn_of.spans:
                    seen += min(max(reach.get(content, 0) - start, 0), length)
                for content, start, length in (*turn_of.spans, turn_of.answer):
                    reach[content] = max(reach.get(content, 0), start + length)
                total += turn_of.prompt_tokens
        found[rule] = seen / total
    assert found["never"] == pytest.approx(0.9531, abs=0.001)
    assert found["never"] < found["auto"] < 0.975
    assert sum(1 for root in replayed(WEKA).sessions for _ in turns_of(root)) == 1061
