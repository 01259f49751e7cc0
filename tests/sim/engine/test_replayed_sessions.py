"""Recorded sessions lived through by simulated users: when turns are sent, who waits for whom, what is hit."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from engine_strategies import closed, engine_setup, everything, step_times
from hypothesis import given
from hypothesis import strategies as st

from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome, Run, TurnRecord
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from workloads.arrivals import CommonStart, Poisson
from workloads.traces.replay import Replay, read_replay
from workloads.traces.sessions import ReplayRules

STEPS = step_times(overhead_s=0.05, per_token_s=1e-4)
FRONT = 96


def turn(t: float, prompt: int, out: int, think_s: float, first: int = 1) -> dict[str, Any]:
    """Return a request whose ids count on from `first`."""
    ids = list(range(first, first + prompt // 64))
    return {"type": "s", "t": t, "in": prompt, "out": out, "hash_ids": ids, "api_time": 2, "think_time": think_s}


def agent(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    """Return a subagent."""
    return {"type": "subagent", "agent_id": name, "t": 0, "requests": list(requests)}


SESSIONS = [
    {
        "id": "plain",
        "tool_tokens": FRONT,
        "requests": [turn(0, 200, 20, 0), turn(3, 300, 20, 1), turn(7, 420, 30, 2), turn(12, 300, 5, 3, first=90)],
    },
    {
        "id": "fleet",
        "tool_tokens": FRONT,
        "requests": [
            turn(0, 200, 20, 0),
            agent("x", turn(0, 90, 5, 0, first=50), turn(2, 160, 5, 0.5, first=50), turn(5, 170, 5, 1, first=50)),
            agent("y", turn(0, 90, 5, 0, first=50)),
            turn(10, 300, 20, 8),
            agent("z", turn(0, 64, 5, 0, first=70)),
        ],
    },
]


def replay_of(folder: Path, *which: int, **rules: Any) -> Replay:
    """Return the sessions, or some of them, under rules."""
    path = folder / "agents.jsonl"
    lines = [json.dumps({"hash_id_scope": "local", "block_size": 64} | SESSIONS[n]) for n in which or (0, 1)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_replay(path, rules=ReplayRules(**rules))


def lived(replay: Replay, clients: int = 1, setup: EngineSetup | None = None, **stop: Any) -> Run:
    """Return a run of some clients."""
    load = closed(replay, clients, **stop or {"sessions_per_client": 1})
    return simulate(setup or engine_setup(STEPS), load, seed=0)


def by_session(run: Run) -> dict[str, list[TurnRecord]]:
    """Return records by what their session is called in the trace."""
    ordered = sorted(run.records, key=lambda record: (record.session, record.turn))
    return {
        name.split(" ")[-1]: list(records)
        for name, records in itertools.groupby(ordered, lambda record: record.session)
    }


def test_a_turn_follows_the_simulated_answer_and_the_recorded_pause(tmp_path: Path) -> None:
    """Not the recorded arrival; a session's first turn is sent at once."""
    (turns,) = by_session(lived(replay_of(tmp_path, 0))).values()
    assert turns[0].arrival_s == 0.0
    pauses = [after.arrival_s - before.last_token_s for before, after in itertools.pairwise(turns)]
    assert pauses == pytest.approx([1.0, 2.0, 3.0])
    assert [one.prompt_tokens for one in turns] == [200, 300, 420, 300]
    assert {one.outcome for one in turns} == {Outcome.COMPLETED}


def test_recorded_times_hold_unless_the_answer_is_late(tmp_path: Path) -> None:
    """An engine that takes 4 s a turn keeps nobody from waiting for it."""
    replay = replay_of(tmp_path, 0, times="recorded")
    assert [one.arrival_s for one in lived(replay).records] == pytest.approx([0.0, 3.0, 7.0, 12.0])
    slow = engine_setup(step_times(overhead_s=0.2))
    first, second, *_ = lived(replay, setup=slow).records
    assert second.arrival_s == pytest.approx(first.last_token_s)
    assert second.arrival_s > 3.0


def test_a_prompt_finds_the_answer_before_it_in_the_cache(tmp_path: Path) -> None:
    """Whole blocks of prompt and answer, of which the last token has no KV yet; of a compacted prompt the front alone.

    Where answers are never reusable, whole blocks of the prompt alone.
    """
    turns = by_session(lived(replay_of(tmp_path, 0)))["plain"]
    assert [one.hit_tokens for one in turns] == [FRONT, (200 + 19) // 16 * 16, (300 + 19) // 16 * 16, 0]
    turns = by_session(lived(replay_of(tmp_path, 0, outputs_reusable="never")))["plain"]
    assert [one.hit_tokens for one in turns] == [FRONT, 200 // 16 * 16, 300 // 16 * 16, 0]


def test_a_parent_waits_for_its_subagents_which_run_beside_each_other(tmp_path: Path) -> None:
    """They start at its answer, are records of their own, and what is left of its pause comes after the last of them.

    It recorded 8 s, of which the longer subagent took 7.
    """
    run = lived(replay_of(tmp_path, 1))
    found = by_session(run)
    parent, x, y, z = (found[name] for name in ("fleet", "fleet/fleet/x", "fleet/fleet/y", "fleet/fleet/z"))
    assert x[0].arrival_s == y[0].arrival_s == parent[0].last_token_s
    assert [after.arrival_s - before.last_token_s for before, after in itertools.pairwise(x)] == pytest.approx([0.5, 1])
    assert parent[1].arrival_s == pytest.approx(max(x[-1].last_token_s, y[-1].last_token_s) + 1.0)
    assert z[0].arrival_s == parent[1].last_token_s
    assert run.duration_s == z[0].last_token_s
    assert {(len(turns), turns[0].depth) for turns in (parent, x, y, z)} == {(2, 0), (3, 1), (1, 1)}
    assert y[0].hit_tokens + x[0].hit_tokens in {0, 64}  # one of them computes their common block
    keys = [(one.session, one.turn) for one in run.records]
    assert len(set(keys)) == len(keys)


def test_clones_share_the_front_alone(tmp_path: Path) -> None:
    """Each of ten users finds what all share, and later only its own; where nothing is shared, nothing."""
    run = lived(replay_of(tmp_path, 0), clients=10)
    first = [one for one in run.records if not one.turn]
    assert {one.hit_tokens for one in first} == {FRONT}
    apart = lived(replay_of(tmp_path, 0, shared_prefix_share=0.0), clients=10)
    assert {one.hit_tokens for one in apart.records if not one.turn} == {0}
    same = lived(replay_of(tmp_path, 0, ids="keep"), clients=10)
    assert sum(one.hit_tokens for one in same.records) > sum(one.hit_tokens for one in run.records)
    assert len({(one.session, one.turn) for one in run.records}) == len(run.records) == 40


def test_a_turn_that_is_refused_ends_its_session(tmp_path: Path) -> None:
    """It is sent where the rule says so; the client then begins another."""
    setup = engine_setup(STEPS, max_model_len=400)
    replay = replay_of(tmp_path, 0, max_context_tokens=400, too_long="refuse")
    run = lived(replay, setup=setup, sessions_per_client=2)
    refused = [one.turn for one in run.records if one.outcome is Outcome.REFUSED]
    assert refused == [2, 2]
    assert len(run.records) == 6


def test_sessions_may_arrive_from_outside(tmp_path: Path) -> None:
    """Each is a recorded one, and all of its subagents are over before the run is."""
    population = Population("session", replay_of(tmp_path), CommonStart(), arrivals=Poisson(0.5))
    run = simulate(engine_setup(STEPS), LoadSetup((population,), StopRule(duration_s=120)), seed=1)
    assert {name.split("/")[0] for name in by_session(run)} == {"plain", "fleet"}
    assert sum(1 for one in run.records if not one.turn and not one.depth) == pytest.approx(60, rel=0.4)


@given(
    seed=st.integers(0, 99),
    blocks=st.integers(30, 120),
    ids=st.sampled_from(["local", "rename", "keep"]),
    share=st.sampled_from([0.0, 0.4, 1.0]),
    clients=st.integers(1, 6),
)
def test_the_same_seed_gives_the_same_and_an_engine_that_forgets_too(
    tmp_path_factory: pytest.TempPathFactory, *, seed: int, blocks: int, ids: str, share: float, clients: int
) -> None:
    """However small the pool: every field of every record."""
    replay = replay_of(tmp_path_factory.mktemp("trace"), ids=ids, shared_prefix_share=share)
    setup = engine_setup(STEPS, num_gpu_blocks=blocks, max_model_len=450)
    load = closed(replay, clients, jitter_s=1.0, sessions_per_client=3)
    keeper = _Keeper()
    run = simulate(setup, load, seed, keeper)
    expected = everything(simulate(setup, load, seed))
    assert everything(Run(keeper.records, run.log, run.duration_s, 0)) == expected
    assert expected == everything(simulate(setup, load, seed))


class _Keeper:
    """Keeps all records, of an engine that is told to forget."""

    def __init__(self) -> None:
        self.records: list[TurnRecord] = []
        self.append = self.records.append

    def over(self, record: TurnRecord, /) -> None:
        """Take note of nothing."""
