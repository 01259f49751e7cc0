"""Remedies of memory pressure: every turn ends once and memory is whole, whatever is drawn."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import simpy
from engine_strategies import engines, everything, loads
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.admission import AdmissionLimit
from sim.engine.clients import Audience
from sim.engine.engine import Engine
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

seeds = st.integers(0, 2**32 - 1)


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
