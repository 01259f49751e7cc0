"""Small deployments in which one limit breaks latency, and whether it is the one that gets the blame."""

import math
from dataclasses import replace
from typing import Any

import pytest

from sim.json_output import result_json
from sim.memory.kv_groups import Keeps, KvGroup
from sim.results.cause import RELIEFS, STATE_SLOTS, Cause, limits_of, with_faster_gpu
from sim.run import Result, run_scenario, turn_rows
from sim.scenario import Scenario
from sim.setup import deploy
from sim.steptime.ahead import Stretch
from sim.steptime.batch import BatchShape
from sim.strict_yaml import apply_overrides, decode, parse_yaml

BASE = """
name: small
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
frontend: {per_request_s: 0.0, per_prompt_token_s: 0.0}
engine:
  kv_cache_dtype: fp8
  kv_cache_tokens: 100000
  max_model_len: 8192
  max_num_batched_tokens: 2048
workload: {shared_prefix_tokens: 512, turns: 1, new_tokens: 200, output_tokens: 20}
load: {kind: closed, sessions: [1, 8]}
stop: {sessions_per_client: 4}
slo: {ttft_p99_s: 1.0}
seeds: 1
"""


def result_of(*overrides: str, **options: Any) -> Result:
    """Return what the small scenario gives with some keys changed."""
    document = apply_overrides(parse_yaml(BASE, "small.yaml"), overrides)
    return run_scenario(deploy(decode(document, Scenario), "small.yaml"), **options)


@pytest.fixture(scope="module")
def kv_bound() -> Result:
    """Return eight sessions of 4,000 tokens of their own over six turns, on a cache for two."""
    return result_of(
        "engine.kv_cache_tokens=9000",
        "workload.turns=6",
        "workload.new_tokens=650",
        "stop={sessions_per_client: 2}",
        "load.sessions=[1, 2, 8]",
    )


def test_a_full_kv_cache_is_named(kv_bound: Result) -> None:
    """It is the knee's cause; latency with room for everything is a third or less."""
    assert kv_bound.knee.sessions == 8
    assert kv_bound.cause is not None
    assert kv_bound.cause.name == "KV cache"
    assert kv_bound.cause.sessions == 8
    assert set(kv_bound.cause.relieved_ttft_p99_s) == set(RELIEFS) - {STATE_SLOTS}
    printed = result_json(kv_bound)
    assert (printed["knee_sessions"], printed["knee_cause"], printed["slo_cause"]) == (8, "KV cache", None)


def test_the_knee_is_refined_between_the_tested_counts(kv_bound: Result) -> None:
    """Between 2, which two sessions fit, and 8."""
    assert kv_bound.knee.refined_sessions is not None
    assert 2 < kv_bound.knee.refined_sessions <= 8


def test_past_the_knee_the_cache_has_evicted_and_below_it_has_not(kv_bound: Result) -> None:
    """Re-prefilled tokens and the hit rate tell the same story."""
    below, past = kv_bound.points[0], kv_bound.points[-1]
    assert below["reprefilled_tokens"] == below["evicted_blocks"] == 0
    assert past["reprefilled_tokens"] > 10_000
    assert past["prefix_hit_rate"] < below["prefix_hit_rate"] - 0.1
    assert below["knee_ratio"] == 1.0
    assert past["knee_ratio"] > 3


def test_turn_rows_hold_every_turn_of_the_first_seed_once(kv_bound: Result) -> None:
    """One flat row a turn and level."""
    rows = list(turn_rows(kv_bound))
    asked = {point["sessions"]: 2 * 6 * point["sessions"] for point in kv_bound.points}  # two sessions of six turns
    assert {level: sum(row["sessions"] == level for row in rows) for level in asked} == asked
    assert len({(row["sessions"], row["session"], row["turn"]) for row in rows}) == len(rows)
    assert {row["outcome"] for row in rows} == {"completed"}


@pytest.mark.parametrize(
    ("limit", "overrides"),
    [
        # one at a time: the eighth waits for seven answers of 200 tokens
        ("max_num_seqs", ["engine.max_num_seqs=1", "workload.output_tokens=200"]),
        # a prompt of 2,000 tokens takes 32 steps, each of which reads all weights
        (
            "max_num_batched_tokens",
            ["engine.max_num_batched_tokens=64", "workload.new_tokens=2000", "load.sessions=[1, 2]"],
        ),
        # eight prompts of 4,000 tokens at once are 2 s of FLOPs whatever the settings
        ("compute", ["workload.new_tokens=4000", "workload.shared_prefix_tokens=0"]),
    ],
)
def test_what_breaks_the_slo_is_named_where_the_kv_cache_does_not_bind(limit: str, overrides: list[str]) -> None:
    """There is no KV knee then, and the cause is that of the first broken promise."""
    result = result_of(*overrides)
    assert result.knee.sessions is None
    assert result.cause is not None
    assert result.cause.name == limit
    printed = result_json(result)
    assert (printed["knee_cause"], printed["slo_cause"]) == (None, limit)
    assert printed["slo_sessions"] in {1, None}


def test_nothing_broken_has_no_cause() -> None:
    """Neither a knee nor a broken promise."""
    result = result_of("slo.ttft_p99_s=100")
    assert (result.knee.sessions, result.cause, result.slo_sessions) == (None, None, 8)
    printed = result_json(result)
    assert (printed["knee_cause"], printed["slo_cause"], printed["cause_ttft_p99_s"]) == (None, None, None)


def test_without_a_promise_there_is_no_slo_capacity() -> None:
    """None, and not the largest count tested."""
    assert result_of("slo={}", levels=[1], explain=False).slo_sessions is None


def test_a_quick_run_looks_for_no_cause_and_bisects_nothing() -> None:
    """The knee is then the grid's."""
    result = result_of("engine.kv_cache_tokens=9000", "workload.turns=6", "workload.new_tokens=650", explain=False)
    assert result.cause is None
    assert result.knee.refined_sessions == result.knee.sessions == 8


def test_the_first_limit_that_explains_is_named_and_compute_last() -> None:
    """A faster GPU helps nearly everything, so it is blamed only if nothing else is."""
    relieved = {"KV cache": 8.0, "max_num_seqs": 2.9, "max_num_batched_tokens": 9.0, "compute": 0.1}
    assert Cause(14, 9.0, relieved, past_kv_knee=False).name == "max_num_seqs"
    assert Cause(14, 9.0, relieved | {"max_num_seqs": 3.0}, past_kv_knee=False).name == "compute"
    assert Cause(14, 9.0, dict.fromkeys(relieved, 8.0), past_kv_knee=False).name is None
    assert Cause(14, float("nan"), relieved, past_kv_knee=False).name is None
    assert Cause(14, 9.0, dict.fromkeys(relieved, 8.0), past_kv_knee=True).name == "KV cache"
    assert list(RELIEFS)[-1] == "compute"


def test_a_faster_gpu_divides_every_step_by_ten() -> None:
    """Whatever is in the batch."""
    deployment = result_of(levels=[1], explain=False).deployment
    prices, faster = deployment.engine.steps, with_faster_gpu(deployment.engine).steps
    batches = (
        BatchShape(1, 1, 0.0, 1, 900),
        BatchShape(300, 2, 45_000.0, 0, 0, 0.0, holds_prefill=True, prefill_kv_tokens=300),
        BatchShape(2048, 12, 3e6, 11, 120_000, 0.0, holds_prefill=True, prefill_kv_tokens=9_000),
    )
    for batch in batches:
        assert faster.seconds(batch) == pytest.approx(prices.seconds(batch) / 10)
    stretch = Stretch(4, 4_000, 0.0, 0.0, math.inf, 30)
    assert faster.ends_s(stretch) == pytest.approx([end_s / 10 for end_s in prices.ends_s(stretch)])


def hybrid(*, num_gpu_blocks: int, **engine: Any) -> Result:
    """Return what the small scenario gives on a model with four groups, three of them states of 2 blocks."""
    document = apply_overrides(parse_yaml(BASE, "small.yaml"), ["load.sessions=[1, 24]", "workload.output_tokens=200"])
    deployment = deploy(decode(document, Scenario), "small.yaml")
    state = KvGroup(Keeps.STATE, 16, 400, state_blocks=2)
    setup = replace(
        deployment.engine,
        num_gpu_blocks=num_gpu_blocks,
        kv_groups=(KvGroup(Keeps.ALL, 16, 400), state, state, state),
        **engine,
    )
    return run_scenario(replace(deployment, engine=setup))


def test_recurrent_state_slots_are_named() -> None:
    """A request of 912 tokens takes 3 blocks and 6 of states: of 24 sessions 3 run, with states elsewhere 10."""
    cause = hybrid(num_gpu_blocks=30, enable_prefix_caching=False).cause
    assert cause is not None
    assert cause.past_kv_knee
    assert cause.name == STATE_SLOTS
    assert list(cause.relieved_ttft_p99_s) == list(RELIEFS)


def test_recurrent_state_slots_are_not_blamed_for_what_attention_takes() -> None:
    """Relieving them alone must bring latency back; without states they are not even asked about."""
    relieved = {STATE_SLOTS: 8.0, "KV cache": 0.1}
    assert Cause(14, 9.0, relieved, past_kv_knee=True).name == "KV cache"
    assert Cause(14, 9.0, relieved | {STATE_SLOTS: 2.9}, past_kv_knee=True).name == STATE_SLOTS
    assert Cause(14, 9.0, relieved | {STATE_SLOTS: 2.9}, past_kv_knee=False).name == STATE_SLOTS
    assert STATE_SLOTS not in limits_of(result_of(levels=[1], explain=False).deployment.engine)
