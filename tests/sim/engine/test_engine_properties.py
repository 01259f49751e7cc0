"""What holds for any small engine and audience: causality, conservation, determinism, consistent latencies."""

import itertools
import math

import numpy as np
import pytest
from engine_strategies import agent, bare_engine, closed, engine_setup, engines, everything, loads, step_times
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.clients import Audience, Population, StopRule
from sim.engine.record import Outcome
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.results.cause import with_unlimited_kv
from sim.results.metrics import PERCENTILES, Slo, run_metrics
from sim.scheduling.continuous import check_integrity
from workloads.agent import AgentWorkload
from workloads.arrivals import CommonStart, Poisson
from workloads.distributions import Constant, Exponential, Normal

seeds = st.integers(0, 2**32 - 1)


@given(engines(), loads(), seeds)
@settings(deadline=None, max_examples=60)
def test_every_turn_ends_one_way_and_its_times_are_causal(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """Sent, queued, admitted, first token, last token, in that order, and no token before the one before it."""
    run = simulate(setup, load, seed)
    assert run.records
    for record in run.records:
        times = [record.arrival_s, record.queued_s, record.scheduled_s, record.first_token_s, record.last_token_s]
        reached = list(itertools.takewhile(lambda moment: not math.isnan(moment), times))
        assert reached == sorted(reached)
        assert 0 <= record.arrival_s <= run.duration_s
        assert record.token_times_s == sorted(record.token_times_s)
        assert all(record.scheduled_s <= moment <= run.duration_s for moment in record.token_times_s)
        assert 0 <= record.hit_tokens < record.prompt_tokens
        assert record.hit_tokens % setup.scheduler.block_size == 0
        assert record.reprefilled_tokens >= 0
        match record.outcome:
            case Outcome.COMPLETED:
                assert len(reached) == 5
                assert len(record.token_times_s) == record.output_tokens
                assert record.token_times_s[0] == record.first_token_s
                assert record.token_times_s[-1] == record.last_token_s
            case Outcome.UNFINISHED:
                assert math.isnan(record.last_token_s)
                assert len(record.token_times_s) < record.output_tokens
            case Outcome.REFUSED:
                assert math.isnan(record.scheduled_s)
                assert not record.token_times_s
    assert run.log.busy_s <= run.duration_s * (1 + 1e-9)
    assert 0 <= run.log.kv_usage_mean <= run.log.kv_usage_peak + 1e-9 <= 1 + 1e-9
    assert run.log.running_peak <= setup.scheduler.max_num_seqs


@given(engines(), loads(), seeds)
@settings(deadline=None, max_examples=40)
def test_records_are_written_in_the_order_of_a_clock_that_never_runs_back(
    setup: EngineSetup, load: LoadSetup, seed: int
) -> None:
    """Arrivals ascend over the run, and the turns of a session follow each other."""
    run = simulate(setup, load, seed)
    arrivals = [record.arrival_s for record in run.records]
    assert arrivals == sorted(arrivals)
    sessions = {record.session for record in run.records}
    for session in sessions:
        turns = [record for record in run.records if record.session == session]
        assert [record.turn for record in turns] == list(range(len(turns)))
        assert all(before.last_token_s <= after.arrival_s for before, after in itertools.pairwise(turns))


@given(engines(), loads(), seeds)
@settings(deadline=None, max_examples=40)
def test_all_blocks_are_free_when_everybody_is_done(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """Nothing leaks, whatever was preempted on the way; the pool is sound after every few steps and at the end."""
    env, engine = bare_engine(setup)
    for population in load.populations:
        engine.warm(population.workload.prefix)
    audience = Audience(env, engine, setup.frontend, StopRule(sessions_per_client=load.stop.sessions_per_client))
    for index, population in enumerate(load.populations):
        audience.add(population, index, seed)
    for _ in range(20):
        if audience.stop.triggered:
            break
        env.run(until=env.now + 0.5)
        check_integrity(engine.scheduler)
    if not audience.stop.processed:
        env.run(until=audience.stop)
    check_integrity(engine.scheduler)
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.usable_blocks
    assert not engine.scheduler.has_requests
    assert {record.outcome for record in audience.records} <= {Outcome.COMPLETED, Outcome.REFUSED}


@given(engines(), loads(), seeds)
@settings(deadline=None, max_examples=30)
def test_a_seed_decides_everything(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """The same inputs give the same records in every field."""
    assert everything(simulate(setup, load, seed)) == everything(simulate(setup, load, seed))


@given(engines(), loads(), seeds)
@settings(deadline=None, max_examples=30)
def test_latencies_agree_with_each_other(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """The gaps of a turn add up to E2E - TTFT, which is TPOT times the tokens after the first; percentiles ascend."""
    run = simulate(setup, load, seed)
    for record in run.records:
        if record.outcome is Outcome.COMPLETED:
            gaps = np.diff(record.token_times_s)
            assert gaps.sum() == pytest.approx(record.e2e_s - record.ttft_s, abs=1e-9)
            assert record.ttft_s <= record.e2e_s
    metrics = run_metrics(run, "session", Slo())
    for name in ("ttft", "tpot", "itl", "e2e"):
        values = [metrics[f"{name}_p{percentile}_s"] for percentile in PERCENTILES]
        assert values == sorted(values) or math.isnan(values[0])
    if metrics["requests"]:
        assert metrics["ttft_p50_s"] <= metrics["e2e_p50_s"]
    if metrics["requests"] == 1 and not math.isnan(metrics["tpot_p50_s"]):
        only = next(r for r in run.records if r.outcome is Outcome.COMPLETED and r.population == "session")
        assert metrics["tpot_p50_s"] * (only.output_tokens - 1) == pytest.approx(only.e2e_s - only.ttft_s)
    turns = sum(metrics[key] for key in ("requests", "unfinished", "refused"))
    assert turns == sum(record.population == "session" for record in run.records)


@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize("blocks", [120, 200, 300])
def test_more_kv_blocks_never_lower_throughput_beyond_noise(*, blocks: int, async_scheduling: bool) -> None:
    """Unlimited KV gives at least 95 % of what any smaller pool gives, and past the knee far more."""
    workload = AgentWorkload(160, Constant(5), Normal(160, 20), Constant(8))
    steps = step_times(overhead_s=0.01, per_token_s=1e-4, per_kv_token_s=1e-7)
    setup = engine_setup(steps, num_gpu_blocks=blocks, async_scheduling=async_scheduling)
    for seed in range(3):
        load = closed(workload, 10, jitter_s=0.01, sessions_per_client=2)
        limited, unlimited = (
            run_metrics(simulate(one, load, seed), "session", Slo())["requests_per_s"]
            for one in (setup, with_unlimited_kv(setup))
        )
        assert unlimited >= 0.95 * limited
        if blocks == 120:
            assert unlimited > 1.2 * limited


def test_long_thought_gives_everybody_the_latency_of_a_lone_session() -> None:
    """Twelve sessions that think for a minute between turns of a tenth of a second hardly ever meet."""
    setup = engine_setup(step_times(overhead_s=0.01, per_token_s=5e-4), async_scheduling=True)

    def p50_s(clients: int, mean_thought_s: float) -> float:
        thought = Exponential(mean_thought_s)
        workload = AgentWorkload(160, Constant(6), Constant(160), Constant(4), thought)
        load = closed(workload, clients, jitter_s=60.0, requests=600)
        return run_metrics(simulate(setup, load, 0), "session", Slo())["ttft_p50_s"]

    alone = p50_s(1, 0.0)
    assert p50_s(12, 60.0) == pytest.approx(alone, rel=0.03)
    assert p50_s(12, 0.0) > 3 * alone  # without thought they do meet


@pytest.mark.parametrize("utilisation", [0.3, 0.5, 0.7])
def test_one_server_with_poisson_arrivals_waits_as_pollaczek_and_khinchine_say(utilisation: float) -> None:
    """M/D/1: single turns of one token, one at a time, a constant step; mean wait rho S / (2 (1 - rho)) within 10 %."""
    service_s, turns = 1.0, 12_000
    population = Population("session", agent(0, 1, 8, 1), CommonStart(), arrivals=Poisson(utilisation / service_s))
    run = simulate(
        engine_setup(step_times(overhead_s=service_s), max_num_seqs=1),
        LoadSetup((population,), StopRule(requests=turns)),
        seed=11,
    )
    waits = [record.scheduled_s - record.queued_s for record in run.records if record.outcome is Outcome.COMPLETED]
    assert len(waits) == turns
    assert np.mean(waits) == pytest.approx(utilisation * service_s / (2 * (1 - utilisation)), rel=0.1)
    assert run.log.busy_s / run.duration_s == pytest.approx(utilisation, rel=0.03)
