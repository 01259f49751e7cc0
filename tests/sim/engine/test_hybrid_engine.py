"""The engine of a hybrid model: the plain loop's where one group keeps everything, by hand where several do not."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from both_engines import run_both
from engine_cases import deployments, session_cases
from engine_strategies import agent, closed, engine_setup, everything, loads, step_times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import cases

from sim.engine.clients import Population, StopRule
from sim.engine.record import Outcome, Run
from sim.engine.simulation import EngineSetup, LoadSetup, scheduler_of, simulate
from sim.memory.kv_groups import Keeps, KvGroup
from sim.results.cause import with_states_apart, with_unlimited_kv
from sim.scheduling.continuous import ContinuousScheduler
from sim.scheduling.hybrid import HybridScheduler
from workloads.arrivals import StaggeredStart

seeds = st.integers(0, 2**32 - 1)
slow_to_draw = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=cases(400), suppress_health_check=slow_to_draw)
@given(session_cases(), seeds)
def test_one_group_meets_the_same_engine(case: tuple[EngineSetup, LoadSetup], seed: int) -> None:
    """Forced through the scheduler of several groups, every record of every run is the plain loop's, bit for bit."""
    setup, load = case
    groups = (KvGroup(Keeps.ALL, 1, setup.scheduler.block_size),)
    with patch("sim.engine.simulation.needs_groups", bool):
        assert isinstance(scheduler_of(replace(setup, kv_groups=groups)), HybridScheduler)
        run_both(replace(setup, kv_groups=groups), load, seed)


def test_one_group_that_keeps_everything_takes_the_usual_path() -> None:
    """With and without a group being named."""
    setup = engine_setup(step_times(overhead_s=0.01))
    for groups in ((), (KvGroup(Keeps.ALL, 36, 16),)):
        assert type(scheduler_of(replace(setup, kv_groups=groups))) is ContinuousScheduler


@st.composite
def hybrids(draw: st.DrawFn) -> EngineSetup:
    """Draw engines of hybrid models, tight enough to refuse, evict and preempt."""
    setup = draw(deployments(scattered=False))
    size = setup.scheduler.block_size
    full, state = KvGroup(Keeps.ALL, 1, size), KvGroup(Keeps.STATE, 1, size, state_blocks=draw(st.integers(2, 4)))
    window = KvGroup(Keeps.WINDOW, 1, draw(st.sampled_from([size, 2 * size])), draw(st.integers(2, 60)))
    groups = draw(st.sampled_from([(full, window, window), (full, state, state), (full, window, state), (window,)]))
    return replace(
        setup,
        kv_groups=groups,
        num_gpu_blocks=len(groups) * setup.num_gpu_blocks,
        prefix_cache_retention_interval=draw(st.sampled_from([0, None, 4 * size])),
    )


@settings(max_examples=cases(150), suppress_health_check=slow_to_draw)
@given(hybrids(), loads(), seeds)
def test_every_turn_ends_one_way_whatever_the_groups(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """Nothing hangs; the same inputs give the same records; hits end where blocks of all groups end."""
    run = simulate(setup, load, seed)
    assert everything(run) == everything(simulate(setup, load, seed))
    for record in run.records:
        assert 0 <= record.hit_tokens < record.prompt_tokens
        assert record.hit_tokens % max(group.block_size for group in setup.kv_groups) == 0
        if record.outcome is Outcome.COMPLETED:
            assert record.received_tokens == record.output_tokens
    assert 0 <= run.log.kv_usage_peak <= 1
    assert run.log.evicted_blocks >= 0
    free = simulate(with_unlimited_kv(setup), load, seed)
    assert free.log.evicted_blocks == 0
    assert not any(record.preemptions or record.evicted_by for record in free.records)
    apart = simulate(with_states_apart(setup), load, seed)
    refused = [sum(record.outcome is Outcome.REFUSED for record in one.records) for one in (apart, run)]
    assert (refused[0] == 0) or refused[1]


def staggered(sessions: int, **engine: object) -> Run:
    """Return sessions of two turns, one starting each second and returning when all have started.

    Blocks of 16 tokens, one group of full attention and three of states. A first turn of 160 tokens and 8 of answer
    leaves 10 full blocks, and 3 states after 144 tokens, which the same prompt would resume from: 13 cached blocks.
    The second turn, of 328 tokens, takes 21 blocks and at most 2 states a group.
    """
    state = KvGroup(Keeps.STATE, 16, 16, state_blocks=2)
    setup = replace(
        engine_setup(step_times(overhead_s=0.01), num_gpu_blocks=101, block_size=16, max_model_len=400),
        kv_groups=(KvGroup(Keeps.ALL, 16, 16), state, state, state),
        **engine,  # type: ignore[arg-type]
    )
    workload = agent(turns=2, new=160, output=8, think_s=float(sessions))
    start = StaggeredStart(float(sessions))
    population = Population("session", workload, start, clients=sessions)
    return simulate(setup, LoadSetup((population,), StopRule(sessions_per_client=1)), seed=0)


@pytest.mark.parametrize(("sessions", "hit"), [(3, 144), (16, 0)])
def test_hits_are_lost_although_usage_is_moderate(sessions: int, hit: int) -> None:
    """3 x 13 blocks outlive each other in a pool of 100, 16 x 13 do not: no preemption, and usage never above 28 %."""
    run = staggered(sessions)
    assert [record.hit_tokens for record in run.records if record.turn == 1] == [hit] * sessions
    assert run.log.kv_usage_peak <= 0.28
    assert not any(record.preemptions for record in run.records)
    lost = [record for record in run.records if record.turn == 1 and record.evicted_by]
    assert len(lost) == (0 if hit else sessions)


def test_states_kept_everywhere_are_hit_further_on() -> None:
    """At 160, where the answer's tokens filled the block; the chunk that ended there was a decode's."""
    run = staggered(2, prefix_cache_retention_interval=None)
    assert [record.hit_tokens for record in run.records if record.turn == 1] == [160, 160]


def test_slots_of_states_bound_who_runs() -> None:
    """7 blocks a short request (1 + 3 x 2): 100 hold 14 of 40; with room elsewhere for states all run."""
    state = KvGroup(Keeps.STATE, 16, 16, state_blocks=2)
    setup = replace(
        engine_setup(step_times(overhead_s=0.01), num_gpu_blocks=101, block_size=16, max_model_len=400),
        kv_groups=(KvGroup(Keeps.ALL, 16, 16), state, state, state),
        enable_prefix_caching=False,
    )
    load = closed(agent(new=8, output=8), 40, sessions_per_client=1)
    run, apart = simulate(setup, load, seed=0), simulate(with_states_apart(setup), load, seed=0)
    assert (run.log.running_peak, apart.log.running_peak) == (14, 40)
    assert run.log.kv_usage_peak == 0.98


def test_a_warm_prefix_is_hit_by_the_first_turn() -> None:
    """100 of 108 tokens in common: 96, in every group."""
    state = KvGroup(Keeps.STATE, 16, 16, state_blocks=2)
    setup = replace(
        engine_setup(step_times(overhead_s=0.01), num_gpu_blocks=101, block_size=16, max_model_len=400),
        kv_groups=(KvGroup(Keeps.ALL, 16, 16), state, KvGroup(Keeps.WINDOW, 16, 16, 40)),
    )
    run = simulate(setup, closed(agent(prefix=100, new=8, output=8), 2, sessions_per_client=1), seed=0)
    assert [record.hit_tokens for record in run.records] == [96, 96]
