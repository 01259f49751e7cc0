"""vLLM 0.32.0's own decisions for models with several groups of layers are made again.

The recordings were made by driving its scheduler and KV cache manager with a fake model, as those of one group were.
Nothing is speculated in them: draft tokens only show as further blocks of a state.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from test_recorded_decisions import assert_same_decisions, parametrised, scenarios

RECORDINGS = Path(__file__).parent / "data" / "hybrid"


def recorded_steps(name: str) -> list[dict[str, Any]]:
    """Return what was decided step by step, without header and summary."""
    lines = (RECORDINGS / f"{name}.golden.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:-1]]


@pytest.mark.parametrize("path", parametrised(RECORDINGS))
def test_recorded_hybrid_decisions_are_reproduced(path: Path) -> None:
    """Windows, chunks and states, alone and together, in both modes; tight pools, priorities, checkpoints."""
    assert_same_decisions(path, numbered=False)


def test_the_recordings_reach_what_is_hard() -> None:
    """All kinds of groups, hits, evictions and preemptions, with and without overlapping steps."""
    seen: dict[str, int] = {}
    for path in scenarios(RECORDINGS):
        scenario = json.loads(path.read_bytes())
        steps = recorded_steps(scenario["name"])
        kinds = {group["keeps"] for group in scenario["kv_groups"]}
        hits = {"hit"} if any(any(step.get("hit", {}).values()) for step in steps) else set()
        named = {key for step in steps for key in ("preempted", "evicted") if key in step}
        for what in kinds | hits | named | ({"async"} if scenario.get("async_scheduling") else set()):
            seen[what] = seen.get(what, 0) + 1
    hard = ("full", "window", "chunk", "state", "hit", "evicted", "preempted", "async")
    assert min(seen.get(what, 0) for what in hard) >= 3, seen


def test_41_sequences_fill_the_router_s_pool() -> None:
    """796 blocks, 1 of attention and 3 x 6 of states a sequence: vLLM itself runs 41 of 50, max_num_seqs is 128."""
    steps = recorded_steps("router_slots")
    assert max(step["running"] for step in steps) == 41
    assert steps[0]["sched"] == [41, 9, 795 - 41 * 19]
    assert steps[0]["kv_usage"] == round(41 * 19 / 795, 6)
