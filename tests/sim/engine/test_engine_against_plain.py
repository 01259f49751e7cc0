"""The engine that looks ahead gives the plain loop's records bit for bit, whatever it runs and whoever asks."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pytest
import simpy
from both_engines import run_both, run_both_recorded
from engine_cases import recorded_cases, session_cases
from engine_strategies import agent, closed, engine_setup, step_times
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from strategies import cases

from sim.engine.record import Outcome
from sim.engine.recorded import RecordedLoad
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from sim.steptime.ahead import StepPrices, Stretch
from sim.steptime.batch import BatchShape

seeds = st.integers(0, 2**32 - 1)
slow_to_draw = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=cases(700), suppress_health_check=slow_to_draw)
@given(session_cases(), seeds)
def test_sessions_meet_the_same_engine(case: tuple[EngineSetup, LoadSetup], seed: int) -> None:
    """Closed and open loops, priorities, bursts, ties, duplicates, preemption storms, runs cut in mid-answer."""
    run_both(*case, seed)


@settings(max_examples=cases(700), suppress_health_check=slow_to_draw)
@given(recorded_cases())
def test_given_requests_meet_the_same_engines(case: tuple[EngineSetup, list[RecordedLoad], int]) -> None:
    """Caps, time-outs, loads that follow each other, several engines."""
    run_both_recorded(*case)


@dataclass
class Counted:
    """Step prices that count how they were asked."""

    prices: StepPrices
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def shared_tokens_read_once(self) -> float:
        """As priced."""
        return self.prices.shared_tokens_read_once

    def seconds(self, batch: BatchShape) -> float:
        """Price a step."""
        self.asked["one by one"] += 1
        return self.prices.seconds(batch)

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Price a stretch."""
        ends = self.prices.ends_s(stretch)
        self.asked["ahead"] += len(ends)
        self.asked["stretches"] += 1
        return ends


def test_the_cases_reach_what_is_hard() -> None:
    """Most steps are taken ahead, and preemption, eviction, aborts, refusals and cut runs are all common."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200, phases=[Phase.generate], suppress_health_check=slow_to_draw)
    @given(session_cases(), seeds)
    def sessions(case: tuple[EngineSetup, LoadSetup], seed: int) -> None:
        setup, load = case
        counted = Counted(setup.steps)
        run = simulate(replace(setup, steps=counted), load, seed)
        seen.update(counted.asked)
        seen["preempting"] += any(record.preemptions for record in run.records)
        seen["storms"] += sum(record.preemptions for record in run.records) > 10
        seen["lost"] += any(record.evicted_by for record in run.records)
        seen["refusing"] += any(record.outcome is Outcome.REFUSED for record in run.records)
        seen["cut in mid-answer"] += any(
            record.outcome is Outcome.UNFINISHED and record.token_steps for record in run.records
        )

    @settings(max_examples=100, phases=[Phase.generate], suppress_health_check=slow_to_draw)
    @given(recorded_cases())
    def requests(case: tuple[EngineSetup, list[RecordedLoad], int]) -> None:
        for run in run_both_recorded(*case):
            outcomes = [record.outcome for record in run.records]
            seen["given up"] += Outcome.ABORTED in outcomes
            seen["given up in mid-answer"] += any(
                record.outcome is Outcome.ABORTED and len(record.token_steps) for record in run.records
            )

    sessions()
    requests()
    assert seen["ahead"] > seen["one by one"], seen
    assert seen["ahead"] > 3 * seen["stretches"], seen
    hard = ("preempting", "lost", "refusing", "cut in mid-answer", "given up", "given up in mid-answer")
    assert min(seen[name] for name in hard) >= 10, seen
    assert seen["storms"] >= 3, seen


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_long_answer_is_a_handful_of_events(*, async_scheduling: bool) -> None:
    """Three sessions of 4,000 tokens each in lockstep: looking ahead, SimPy has next to nothing to do."""
    events = 0
    step = simpy.Environment.step

    def counting(env: simpy.Environment) -> None:
        nonlocal events
        events += 1
        step(env)

    setup = engine_setup(step_times(overhead_s=0.01), async_scheduling=async_scheduling)
    with patch.object(simpy.Environment, "step", counting):
        run = simulate(setup, closed(agent(output=4000), 3, sessions_per_client=1), seed=0)
    assert run.log.steps == 4000
    assert events < 60


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_an_event_that_changes_nothing_ends_a_stretch_and_nothing_else(*, async_scheduling: bool) -> None:
    """Clients that come while a full engine decodes cut its stretches short; the steps stay where they were."""

    def times_s(clients: int) -> list[float]:
        setup = engine_setup(
            step_times(overhead_s=0.01, per_kv_token_s=1e-6), max_num_seqs=1, async_scheduling=async_scheduling
        )
        load: dict[str, Any] = {"jitter_s": 3.0, "duration_s": 4.5}
        run = simulate(setup, closed(agent(output=400), clients, **load), seed=0)
        first = min(run.records, key=lambda record: record.arrival_s)
        return [time_s - first.arrival_s for time_s in first.token_times_s]

    assert len(times_s(1)) >= 100
    assert times_s(9)[:100] == pytest.approx(times_s(1)[:100])
