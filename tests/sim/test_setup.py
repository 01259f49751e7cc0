"""From a scenario's words to what runs: every load, start, distribution and flag arrives where it belongs."""

from dataclasses import replace
from typing import Any

import pytest

from sim.engine.clients import StopRule
from sim.engine.frontend import FrontendTimes
from sim.errors import ScenarioError
from sim.results.metrics import Slo
from sim.run import run_scenario
from sim.scenario import Scenario, load_levels, load_unit
from sim.scheduling.continuous import SchedulerConfig
from sim.setup import Deployment, deploy
from sim.strict_yaml import apply_overrides, decode, parse_yaml
from workloads.arrivals import Bursts, CommonStart, ConstantRate, Poisson, StaggeredStart
from workloads.distributions import Constant, Exponential, Lognormal, Normal, Uniform

LONGER = SchedulerConfig(max_model_len=4096)

TEXT = """
name: small
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine: {kv_cache_dtype: fp8, kv_cache_tokens: 20000, max_model_len: 4096}
workload: {shared_prefix_tokens: 512, turns: 4, new_tokens: 100, output_tokens: 5}
load: {kind: closed, sessions: [1, 2]}
stop: {duration_s: 10}
"""


def deployed(*overrides: str) -> Deployment:
    """Return the small scenario with some keys changed."""
    return deploy(decode(apply_overrides(parse_yaml(TEXT, "small.yaml"), overrides), Scenario), "small.yaml")


@pytest.mark.parametrize(
    ("load", "level", "arrivals", "unit"),
    [
        ("{kind: poisson, sessions_per_minute: [30]}", 30, Poisson(0.5), "sessions per minute"),
        ("{kind: constant_rate, sessions_per_minute: [6]}", 6, ConstantRate(0.1), "sessions per minute"),
        (
            "{kind: bursts, sessions_per_burst: [4], interval_s: 9, jitter_s: 1}",
            4,
            Bursts(4, 9, 1),
            "sessions per burst",
        ),
    ],
)
def test_an_open_loop_becomes_arrivals(load: str, level: int, arrivals: Any, unit: str) -> None:
    """Minutes become seconds; no client is there from the start."""
    deployment = deployed(f"load={load}")
    (population,) = deployment.load_at(level).populations
    assert (population.arrivals, population.clients) == (arrivals, 0)
    assert load_levels(deployment.scenario.load) == [level]
    assert load_unit(deployment.scenario.load) == unit


@pytest.mark.parametrize(
    ("start", "becomes"),
    [("{kind: common, jitter_s: 0.5}", CommonStart(0.5)), ("{kind: staggered, over_s: 30}", StaggeredStart(30.0))],
)
def test_a_closed_loop_becomes_clients_with_a_start(start: str, becomes: Any) -> None:
    """As many as the level says."""
    load = deployed(f"load.start={start}", "stop={requests: 7, duration_s: 9, sessions_per_client: 3}").load_at(2)
    (population,) = load.populations
    assert (population.clients, population.start, population.arrivals) == (2, becomes, None)
    assert load.stop == StopRule(7, 9.0, 3)
    assert load.warm_start


def test_a_background_is_the_same_at_every_level_and_comes_second() -> None:
    """Its priority is a larger number, which vLLM serves later."""
    other = "{sessions: 6, workload: {shared_prefix_tokens: 0, turns: 1, new_tokens: 9, output_tokens: 1}}"
    deployment = deployed(f"background={other}")
    for level in (1, 2):
        main, background = deployment.load_at(level).populations
        assert (main.clients, main.priority) == (level, 0)
        assert (background.clients, background.priority) == (6, 1)
        assert background.workload.new_tokens == Constant(9.0)
        assert main.name != background.name


@pytest.mark.parametrize(
    ("spec", "becomes"),
    [
        ("3", Constant(3.0)),
        ("{kind: constant, value: 3}", Constant(3.0)),
        ("{kind: uniform, low: 1, high: 3}", Uniform(1.0, 3.0)),
        ("{kind: exponential, mean: 3}", Exponential(3.0)),
        ("{kind: lognormal, median: 3, sigma: 0.5}", Lognormal(3.0, 0.5)),
        ("{kind: normal, mean: 3, std: 1}", Normal(3.0, 1.0)),
    ],
)
@pytest.mark.parametrize("key", ["turns", "new_tokens", "output_tokens", "think_s"])
def test_every_distribution_is_known_for_every_number(key: str, spec: str, becomes: Any) -> None:
    """A bare number is a constant."""
    (population,) = deployed(f"workload.{key}={spec}").load_at(1).populations
    assert getattr(population.workload, key) == becomes


@pytest.mark.parametrize(
    ("flag", "value", "name"),
    [
        ("max_num_batched_tokens", 512, None),
        ("max_num_seqs", 7, None),
        ("block_size", 32, None),
        ("enable_chunked_prefill", False, None),
        ("scheduling_policy", "priority", "policy"),
        ("long_prefill_token_threshold", 64, None),
        ("long_prefill_token_threshold_adaptive", True, None),
        ("watermark", 0.01, None),
        ("scheduler_reserve_full_isl", False, None),
        ("async_scheduling", False, None),
    ],
)
def test_an_engine_flag_reaches_the_scheduler(flag: str, value: object, name: str | None) -> None:
    """Under vLLM's own name, and it is not the default that was there anyway."""
    room = ["engine.max_num_batched_tokens=4096"] if flag == "enable_chunked_prefill" else []
    changed = deployed(*room, f"engine.{flag}={str(value).lower()}").engine.scheduler
    assert getattr(changed, name or flag) == value
    assert getattr(deployed().engine.scheduler, name or flag) != value


def test_prefix_caching_warm_start_slo_and_blocks_arrive_too() -> None:
    """What is not the scheduler's."""
    changes = ("engine.enable_prefix_caching=false", "warm_start=false", "slo={tpot_p99_s: 0.1}")
    deployment = deployed(*changes, "engine.kv_cache_tokens=null", "engine.num_gpu_blocks_override=777")
    assert not deployment.engine.enable_prefix_caching
    assert not deployment.load_at(1).warm_start
    assert deployment.slo == Slo(None, 0.1)
    assert deployment.engine.num_gpu_blocks == 777


def test_a_frontend_of_the_scenario_replaces_the_profiles() -> None:
    """Both terms at once."""
    own = deployed().step_times.frontend
    assert deployed().engine.frontend == FrontendTimes(own.per_request_s.value, own.per_prompt_token_s.value)
    changed = deployed("frontend={per_request_s: 0.5, per_prompt_token_s: 0}")
    assert changed.engine.frontend == FrontendTimes(0.5, 0.0)


def test_the_division_by_hand_is_capacity_less_prefix_over_a_sessions_own_tokens() -> None:
    """(20,000 - 512) / (4 x 100 + 4 x 5): 46 sessions; a source that names its own divisor is followed."""
    by_hand = deployed().arithmetic
    assert (by_hand.kv_cache_tokens, by_hand.shared_prefix_tokens, by_hand.unique_tokens_per_session) == (
        20_000,
        512,
        420,
    )
    assert by_hand.sessions == 46
    assert deployed("published={source: a book, unique_tokens_per_session: 1000}").arithmetic.sessions == 19


def test_a_roofline_is_made_for_the_gpu_asked_for() -> None:
    """Nothing needs to be shipped for it."""
    priced = deployed("profile=roofline", "gpu=A100", "weight_dtype=bf16").step_times
    assert priced.name.startswith("roofline-A100-80GB-SXM-")
    assert priced.provenance.kind == "roofline"


def test_an_engine_that_would_not_start_is_refused_with_the_reason() -> None:
    """The scenario is named, and the largest max_model_len that would fit."""
    with pytest.raises(ScenarioError, match=r"small.yaml: the engine would not start: .*that fits is 3,984"):
        deployed("engine.kv_cache_tokens=4000")


def test_clients_only_stop_rules_need_clients() -> None:
    """An open loop has none whose sessions could be counted."""
    with pytest.raises(ScenarioError, match=r"stop.sessions_per_client needs load.kind closed"):
        deployed("load={kind: poisson, sessions_per_minute: [1]}", "stop={sessions_per_client: 1}")


def test_background_that_may_go_first_needs_an_end_in_time() -> None:
    """Endless sessions that are always next would keep the others, and so the run, waiting for ever."""
    background = (
        "background={sessions: 1, workload: {shared_prefix_tokens: 0, turns: 1, new_tokens: 9, output_tokens: 9}}"
    )
    endless = "stop={sessions_per_client: 1}"
    with pytest.raises(ScenarioError, match=r"lifo needs stop.duration_s"):
        deployed(background, endless, "engine.scheduling_policy=lifo")
    assert deployed(background, "engine.scheduling_policy=lifo").scenario.background is not None
    assert deployed(background, endless).scenario.background is not None


def test_a_point_where_only_an_unlimited_cache_completes_anything_is_past_the_knee() -> None:
    """Every turn is refused for want of blocks; without that limit all are served."""
    late = deployed(
        "engine={kv_cache_dtype: fp8, num_gpu_blocks_override: 70, max_model_len: 1024}",
        "workload={shared_prefix_tokens: 900, turns: 1, new_tokens: 200, output_tokens: 5}",
        "stop={requests: 3}",
        "load.sessions=[1]",
    )
    blocked = replace(late, engine=replace(late.engine, num_gpu_blocks=60, scheduler=LONGER))
    result = run_scenario(blocked, seeds=1, explain=False)
    assert result.points[0]["refused"] == 3
    assert result.knee.sessions == 1
