"""Requests sent at given times by one process, in the same engine as everybody else's."""

from dataclasses import replace

import pytest
from engine_strategies import engine_setup, engines, step_times
from hypothesis import given
from hypothesis import strategies as st
from turn_records import FIELDS

from sim.engine.clients import StopRule
from sim.engine.frontend import FrontendTimes
from sim.engine.given import GivenRequests
from sim.engine.record import Outcome, Run
from sim.engine.recorded import RecordedLoad, simulate_recorded
from sim.engine.simulation import EngineSetup, LoadSetup, simulate
from workloads.recorded import RecordedRequest
from workloads.session import Prompt
from workloads.span import Span

SECOND_A_STEP = step_times(overhead_s=1.0)


def requests(*rows: tuple[float, int, int]) -> list[RecordedRequest]:
    """Return requests of so many prompt and output tokens."""
    return [
        RecordedRequest(at_s, Prompt((Span(number, 0, prompt),), Span(number, prompt, output), 0))
        for number, (at_s, prompt, output) in enumerate(rows)
    ]


def run_of(setup: EngineSetup, sent: list[RecordedRequest], **stop: float) -> Run:
    """Return the run of these requests."""
    return simulate(setup, LoadSetup((), StopRule(**stop), given=GivenRequests("session", sent)), 0)


def test_requests_leave_at_their_times_and_the_run_ends_with_the_last_answer() -> None:
    """Steps take a second: the first is alone until 1 s, the second joins the step from 1 s on."""
    run = run_of(engine_setup(SECOND_A_STEP), requests((0.0, 20, 3), (0.5, 20, 3), (9.0, 20, 1)))
    assert [record.arrival_s for record in run.records] == [0.0, 0.5, 9.0]
    assert [record.first_token_s for record in run.records] == [1.0, 2.0, 10.0]
    assert [record.session for record in run.records] == ["0", "1", "2"]
    assert {record.outcome for record in run.records} == {Outcome.COMPLETED}
    assert run.duration_s == 10.0


def test_work_off_the_gpu_delays_the_queue_and_not_the_next_request() -> None:
    """A prompt of 20 tokens takes 2 s to arrive, the one of 10 sent later overtakes it."""
    setup = replace(engine_setup(SECOND_A_STEP), frontend=FrontendTimes(0.0, 0.1))
    first, second = run_of(setup, requests((0.0, 20, 1), (0.5, 10, 1))).records
    assert (first.arrival_s, first.queued_s, second.arrival_s, second.queued_s) == (0.0, 2.0, 0.5, 1.5)
    assert (second.first_token_s, first.first_token_s) == (2.5, 3.5)


def test_refused_requests_are_answered_at_once_and_nobody_waits_for_them() -> None:
    """The last one is refused, too: the run still ends."""
    setup = engine_setup(SECOND_A_STEP, max_model_len=50)
    run = run_of(setup, requests((0.0, 60, 1), (1.0, 20, 1), (5.0, 60, 1)))
    assert [record.outcome.value for record in run.records] == ["refused", "completed", "refused"]
    assert run.duration_s == 5.0


def test_a_run_ends_at_its_limits() -> None:
    """What was sent by then is unfinished; what was not is not there."""
    rows = [(float(at_s), 20, 3) for at_s in range(10)]
    cut = run_of(engine_setup(SECOND_A_STEP), requests(*rows), duration_s=5.5)
    assert cut.duration_s == 5.5
    assert [record.outcome.value for record in cut.records] == ["completed"] * 3 + ["unfinished"] * 3
    counted = run_of(engine_setup(SECOND_A_STEP), requests(*rows), requests=2)
    assert [record.outcome for record in counted.records].count(Outcome.COMPLETED) == 2


lengths = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=12)


@given(engines(), lengths)
def test_they_are_served_as_those_of_a_benchmark_client(setup: EngineSetup, rows: list[tuple[float, int, int]]) -> None:
    """Two clients that send the same: every field of every record is the same, to the bit."""
    setup = replace(setup, frontend=FrontendTimes())
    sent = requests(*sorted(rows))
    (expected,) = simulate_recorded(setup, [RecordedLoad(sent)])
    run = run_of(setup, sent)
    assert run.log == expected.log
    for ours, theirs in zip(run.records, expected.records, strict=True):
        for name in FIELDS:
            if name not in ("population", "steps"):
                assert repr(getattr(ours, name)) == repr(getattr(theirs, name))
        assert ours.token_times_s == pytest.approx(theirs.token_times_s, abs=0)
