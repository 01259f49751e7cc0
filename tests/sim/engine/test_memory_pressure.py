"""Remedies of memory pressure: every turn ends once and memory is whole, whatever is drawn; small cases by hand."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import simpy
from engine_strategies import agent, closed, engine_setup, engines, everything, loads, step_times
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.admission import AdmissionLimit
from sim.engine.clients import Audience, Population
from sim.engine.engine import Engine
from sim.engine.given import GivenRequests
from sim.engine.pressure_costs import PressureCosts
from sim.engine.record import Outcome, Run, TurnRecord
from sim.engine.retry import Retry
from sim.engine.simulation import EngineSetup, LoadSetup, engine_of, simulate
from sim.results.measure import measure
from sim.results.metrics import Slo, run_metrics
from sim.scheduling.batch_limit import BatchLimit
from sim.scheduling.continuous import check_integrity
from sim.scheduling.growing import Growing
from sim.scheduling.under_pressure import UnderPressure
from sim.scheduling.victims import VICTIMS
from workloads.arrivals import CommonStart
from workloads.recorded import RecordedRequest
from workloads.session import Prompt
from workloads.span import Span

seeds = st.integers(0, 2**32 - 1)
STEPS = step_times(overhead_s=0.01)


@st.composite
def pressed_engines(draw: st.DrawFn) -> EngineSetup:
    """Draw tight engines with any mixture of remedies, or ones that die."""
    setup = draw(engines())
    limit = AdmissionLimit(draw(st.sampled_from([None, 1, 4])), draw(st.sampled_from([None, 0.3, 0.9])))
    costs = PressureCosts(limit, draw(st.sampled_from([0.0, 1e-3])), draw(st.sampled_from([0.0, 0.5, 7.0])))
    if draw(st.integers(0, 3)) == 0:
        flags = replace(setup.scheduler, kv_reservation="grow", async_scheduling=False, policy="fcfs")
        return replace(setup, scheduler=flags, scheduler_name="fixed_slots", under_pressure=costs)
    flags = replace(
        setup.scheduler,
        preemption_mode=draw(st.sampled_from(["swap", "swap", "recompute"])),
        host_blocks=draw(st.sampled_from([0, 3, 1000])),
        preemption_victim=draw(st.sampled_from(sorted(VICTIMS))),
        batch_limit=draw(st.sampled_from([None, BatchLimit(0.5, 1), BatchLimit(0.0, 2)])),
        shed_above_kv_usage=draw(st.sampled_from([None, 0.0, 0.5, 0.9])),
        shed_priority=draw(st.sampled_from([0, 1])),
    )
    return replace(setup, scheduler=flags, under_pressure=costs)


@st.composite
def insistent_loads(draw: st.DrawFn) -> LoadSetup:
    """Draw loads whose clients try again."""
    tries = draw(st.sampled_from([1, 2, 5]))
    return replace(draw(loads()), retry=Retry(tries, backoff_s=0.1, jitter=draw(st.sampled_from([0.0, 1.0]))))


def _run(setup: EngineSetup, load: LoadSetup, seed: int) -> tuple[Run, Engine]:
    """Simulate with the engine kept, its memory looked at again and again."""
    env = simpy.Environment(0.0)
    engine = engine_of(env, setup)
    records: list[TurnRecord] = []
    rng = np.random.default_rng(seed)
    audience = Audience(env, engine, setup.frontend, load.stop, records, retry=load.retry, retry_rng=rng)
    for index, population in enumerate(load.populations):
        audience.add(population, index, seed)

    def watch() -> Any:
        while True:
            yield env.timeout(0.37)
            _check_memory(engine)

    env.process(watch())
    env.run(until=audience.stop)
    engine.settle()
    _check_memory(engine)
    return Run(records, engine.log(), env.now, setup.num_gpu_blocks), engine


def _check_memory(engine: Engine) -> None:
    scheduler = engine.scheduler
    check_integrity(scheduler)
    if isinstance(scheduler, UnderPressure):
        scheduler.host.check_integrity()
        waiting = set(scheduler.waiting)
        assert all(request in waiting for request in scheduler.host._held)
    if isinstance(scheduler, Growing):
        scheduler.memory.check_integrity()
        pool = scheduler.pool
        assert scheduler.memory.free_tokens == pool.num_free * scheduler.config.block_size
        assert set(scheduler._areas) == set(scheduler.running)


@given(pressed_engines(), insistent_loads(), seeds)
@settings(deadline=None, max_examples=150)
def test_every_turn_ends_once_and_memory_is_whole(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """Whatever the remedies and their mixture; what is counted adds up; the same seed gives the same."""
    run, engine = _run(setup, load, seed)
    outcomes = Counter(record.outcome for record in run.records)
    pressure = engine.pressure
    for record in run.records:
        if record.outcome is Outcome.COMPLETED:
            assert record.received_tokens == record.output_tokens
            assert record.arrival_s <= record.scheduled_s <= record.first_token_s <= record.last_token_s
        elif record.outcome is not Outcome.UNFINISHED:
            assert math.isnan(record.last_token_s)
        times = record.token_times_s
        assert times == sorted(times)
        assert all(record.scheduled_s <= moment <= run.duration_s for moment in times)
    live = len(engine._live)
    assert live <= outcomes[Outcome.UNFINISHED]
    if pressure is None:
        assert not {Outcome.REJECTED, Outcome.SHED, Outcome.LOST} & set(outcomes)
        return
    assert pressure.shed == outcomes[Outcome.SHED] or not run.records
    assert pressure.lost == outcomes[Outcome.LOST]
    assert outcomes[Outcome.REJECTED] * load.retry.tries + pressure.retries >= pressure.rejections
    assert pressure.retries <= len(run.records) * (load.retry.tries - 1)
    assert pressure.rejections >= pressure.retries
    assert run.log.busy_s <= run.duration_s * (1 + 1e-9)


@given(pressed_engines(), insistent_loads(), seeds)
@settings(deadline=None, max_examples=30)
def test_the_same_seed_gives_the_same_run(setup: EngineSetup, load: LoadSetup, seed: int) -> None:
    """Jitter of retries included; and a run that keeps no records counts the same."""
    one, two = (simulate(setup, load, seed) for _ in range(2))
    assert everything(one) == everything(two)
    kept = run_metrics(one, "session", Slo(1.0))
    forgotten = measure(setup, load, seed, population="session", slo=Slo(1.0))
    assert repr(kept) == repr(forgotten)


def _two_that_do_not_fit(**flags: Any) -> tuple[EngineSetup, LoadSetup]:
    """Two turns of 40 + 40 tokens in 8 blocks of 16: the second must give way once."""
    setup = engine_setup(STEPS, num_gpu_blocks=9, max_model_len=100, max_num_seqs=4, async_scheduling=False, **flags)
    return setup, closed(agent(0, 1, 40, 40), 2, sessions_per_client=1)


def test_a_swapped_request_computes_nothing_again_and_waits_for_its_copy() -> None:
    """Three to four blocks go out and come back: two copies, no token prefilled twice."""
    again = simulate(*_two_that_do_not_fit(), 0)
    swap, load = _two_that_do_not_fit(preemption_mode="swap", host_blocks=10)
    swapped = simulate(replace(swap, under_pressure=PressureCosts(seconds_per_moved_block=0.1)), load, 0)
    assert sum(record.preemptions for record in again.records) == sum(r.preemptions for r in swapped.records) == 1
    assert sum(record.reprefilled_tokens for record in swapped.records) == 0
    pressure = swapped.log.pressure
    assert pressure is not None
    blocks = pressure.swapped_blocks
    assert blocks in {4, 5}
    back_from_host = round(pressure.swap_s / 0.1) - blocks
    assert 0 <= back_from_host <= blocks  # what the prefix cache still holds need not come back
    free = simulate(swap, load, 0)
    assert swapped.duration_s == pytest.approx(free.duration_s + pressure.swap_s)


def test_without_prefix_cache_all_blocks_come_back() -> None:
    """Out and in are the same number."""
    swap, load = _two_that_do_not_fit(preemption_mode="swap", host_blocks=10)
    swap = replace(swap, enable_prefix_caching=False, under_pressure=PressureCosts(seconds_per_moved_block=0.1))
    pressure = simulate(swap, load, 0).log.pressure
    assert pressure is not None
    assert pressure.swap_s == pytest.approx(2 * 0.1 * pressure.swapped_blocks)


def test_a_full_host_falls_back_to_recomputing() -> None:
    """As if there were no swap space, decision for decision."""
    base, load = _two_that_do_not_fit()
    small, _ = _two_that_do_not_fit(preemption_mode="swap", host_blocks=1)
    one, two = simulate(base, load, 0), simulate(small, load, 0)
    assert [record.token_times_s for record in one.records] == [record.token_times_s for record in two.records]
    assert two.log.pressure is not None
    assert two.log.pressure.recomputed == 1
    assert not two.log.pressure.swapped_blocks


@pytest.mark.parametrize(("victim", "preempted"), [("last_admitted", [0, 1]), ("cheapest_to_recompute", [1, 0])])
def test_who_gives_way(victim: str, preempted: list[int]) -> None:
    """A short turn came first and a long one after it: vLLM preempts the long one, the other rule the short one."""
    setup = engine_setup(
        STEPS, num_gpu_blocks=13, max_model_len=200, max_num_seqs=4, async_scheduling=False, preemption_victim=victim
    )
    short = Population("short", agent(0, 1, 20, 80), CommonStart(), clients=1)
    long = Population("long", agent(0, 1, 100, 60), CommonStart(), clients=1)
    run = simulate(setup, LoadSetup((short, long), closed(agent(), 1, sessions_per_client=1).stop), 0)
    by_name = {record.population: record.preemptions for record in run.records}
    assert [min(by_name["short"], 1), min(by_name["long"], 1)] == preempted


def test_a_limit_that_follows_usage_lets_fewer_begin() -> None:
    """In a straight line from where it begins; never fewer than the least."""
    limit = BatchLimit(0.6, 2)
    assert [limit.at(usage, 10) for usage in (0.0, 0.6, 0.8, 0.9, 1.0)] == [10, 10, 6, 4, 2]
    assert limit.at(1.0, 1) == 1
    setup = engine_setup(STEPS, num_gpu_blocks=65, max_model_len=200, max_num_seqs=16, async_scheduling=False)
    load = closed(agent(0, 1, 60, 60), 12, sessions_per_client=2)
    calm = replace(setup, scheduler=replace(setup.scheduler, batch_limit=BatchLimit(0.5, 1)))
    wild, tame = (simulate(one, load, 0) for one in (setup, calm))
    assert sum(r.preemptions for r in tame.records) < sum(r.preemptions for r in wild.records)


def test_shedding_keeps_the_important_ones_free_of_preemptions() -> None:
    """Background sessions are dropped above the mark; who matters never waits for memory."""
    setup = engine_setup(STEPS, num_gpu_blocks=33, max_model_len=200, max_num_seqs=16, policy="priority")
    main = Population("session", agent(0, 1, 60, 60), CommonStart(), clients=3)
    other = Population("background", agent(0, 1, 60, 60), CommonStart(), clients=5, priority=1, ends_run=False)
    load = LoadSetup((main, other), closed(agent(), 1, sessions_per_client=6).stop)
    shed = replace(setup, scheduler=replace(setup.scheduler, shed_above_kv_usage=0.85))
    before, after = (simulate(one, load, 0) for one in (setup, shed))
    assert {r.outcome for r in after.records if r.population == "session"} == {Outcome.COMPLETED}
    dropped = [r for r in after.records if r.outcome is Outcome.SHED]
    assert dropped
    assert {r.population for r in dropped} == {"background"}
    mine = [sum(r.preemptions for r in run.records if r.population == "session") for run in (before, after)]
    assert mine[1] <= mine[0]
    assert run_metrics(after, "session", Slo())["ttft_p99_s"] <= run_metrics(before, "session", Slo())["ttft_p99_s"]
    metrics = run_metrics(after, "session", Slo())
    assert metrics["shed"] == 0
    assert metrics["shed_of_all"] == len(dropped)


def _queue_of_one(tries: int, jitter: float = 0.0) -> Run:
    """Three at once, one slot, two in flight at most: the third is rejected until there is room."""
    setup = engine_setup(STEPS, max_num_seqs=1, async_scheduling=False)
    setup = replace(setup, under_pressure=PressureCosts(AdmissionLimit(max_num_queued_reqs=2)))
    load = closed(agent(0, 1, 10, 100), 3, sessions_per_client=1)
    return simulate(setup, replace(load, retry=Retry(tries, backoff_s=0.3, jitter=jitter)), 0)


def test_a_rejected_client_comes_back_and_its_ttft_counts_from_the_first_send() -> None:
    """Pauses of 0.3, 0.6 and 1.2 s: the first answer takes a second, so the third try finds room."""
    run = _queue_of_one(4)
    assert [record.outcome for record in run.records] == [Outcome.COMPLETED] * 3
    pressure = run.log.pressure
    assert pressure is not None
    assert pressure.rejections == pressure.retries
    late = max(run.records, key=lambda record: record.queued_s)
    assert late.arrival_s == 0.0
    assert any(late.queued_s == pytest.approx(pause_s) for pause_s in (0.9, 2.1))
    assert late.ttft_s > late.queued_s


def test_patience_ends() -> None:
    """One try: rejected for good, once; latencies are of those that were answered."""
    run = _queue_of_one(1)
    assert Counter(record.outcome for record in run.records) == {Outcome.COMPLETED: 2, Outcome.REJECTED: 1}
    metrics = run_metrics(run, "session", Slo(100.0))
    assert metrics["rejected"] == 1
    assert metrics["retries"] == 0
    assert not Slo(100.0).met_by_point(metrics)


def test_jitter_shortens_pauses_by_the_seed() -> None:
    """Between half and all of the pause; no pause beyond the longest, however many tries."""
    retry = Retry(9, backoff_s=2.0, jitter=0.5, most_s=30.0)
    rng = np.random.default_rng(0)
    for tries in range(1, 3000, 7):
        full = min(2.0 * 2.0 ** min(tries - 1, 60), 30.0)
        assert full / 2 <= retry.pause_s(tries, rng) <= full
    assert _queue_of_one(6, 0.9).duration_s != _queue_of_one(6).duration_s


def test_recorded_requests_are_tried_again_too() -> None:
    """A trace's client has the same patience."""
    setup = engine_setup(STEPS, max_num_seqs=1, async_scheduling=False)
    setup = replace(setup, under_pressure=PressureCosts(AdmissionLimit(max_num_queued_reqs=2)))
    prompts = [Prompt((Span(n, 0, 10),), Span(n, 10, 50)) for n in range(4)]
    load = LoadSetup(
        (), closed(agent(), 1).stop, given=GivenRequests("session", [RecordedRequest(0.0, p) for p in prompts])
    )
    for tries, completed in ((1, 2), (9, 4)):
        run = simulate(setup, replace(load, retry=Retry(tries, backoff_s=0.2)), 0)
        assert sum(record.outcome is Outcome.COMPLETED for record in run.records) == completed
        assert all(record.outcome in {Outcome.COMPLETED, Outcome.REJECTED} for record in run.records)


def test_a_process_that_cannot_grow_dies_with_everything_it_holds() -> None:
    """Two prompts of 40 in 192 tokens: the first moves to grow, the second finds 80 free and no hole of 64."""
    setup = engine_setup(
        STEPS,
        num_gpu_blocks=13,
        max_model_len=200,
        max_num_seqs=4,
        async_scheduling=False,
        kv_reservation="grow",
    )
    setup = replace(setup, scheduler_name="fixed_slots", under_pressure=PressureCosts(restart_s=5.0))
    load = closed(agent(0, 1, 40, 100), 2, sessions_per_client=2)
    run = simulate(setup, replace(load, retry=Retry(4)), 0)
    lost = [record for record in run.records if record.outcome is Outcome.LOST]
    assert len(lost) >= 2
    assert {record.received_tokens for record in lost[:2]} == {9}  # with the tenth each has 49 and needs a fourth block
    pressure = run.log.pressure
    assert pressure is not None
    assert pressure.crashes >= 1
    assert pressure.rejections >= 2
    assert run_metrics(run, "session", Slo())["lost"] == pressure.lost
    fits = replace(setup, num_gpu_blocks=40)
    calm = simulate(fits, load, 0)
    assert {record.outcome for record in calm.records} == {Outcome.COMPLETED}
    assert calm.log.pressure is not None
    assert not calm.log.pressure.crashes
