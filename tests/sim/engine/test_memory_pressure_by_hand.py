"""Remedies of memory pressure in small cases whose numbers can be counted by hand."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_strategies import agent, closed, engine_setup, step_times

from sim.engine.admission import AdmissionLimit
from sim.engine.clients import Population
from sim.engine.given import GivenRequests
from sim.engine.pressure_costs import PressureCosts
from sim.engine.record import Outcome, Run
from sim.engine.retry import Retry
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.results.metrics import Slo, run_metrics
from sim.scheduling.batch_limit import BatchLimit
from workloads.arrivals import CommonStart
from workloads.recorded import RecordedRequest
from workloads.session import Prompt
from workloads.span import Span

STEPS = step_times(overhead_s=0.01)


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
