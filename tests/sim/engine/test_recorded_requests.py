"""Given requests: sent in order, capped, given up, dealt to engines, with times one can add up by hand."""

import math
from collections.abc import Sequence

import pytest
from engine_strategies import engine_setup, step_times
from hypothesis import given
from hypothesis import strategies as st

from sim.engine.record import Outcome, Run
from sim.engine.recorded import RecordedLoad, simulate_recorded
from workloads.recorded import RecordedRequest
from workloads.span import Span

SECOND_A_STEP = step_times(overhead_s=1.0)
NOTHING = step_times()


def requests(times: Sequence[float], *, prompt: int = 20, output: int = 3) -> tuple[RecordedRequest, ...]:
    """Return requests that share nothing."""
    return tuple(
        RecordedRequest.of(at_s, [Span(("text", number), 0, prompt)], output, str(number))
        for number, at_s in enumerate(times)
    )


def run_of(load: RecordedLoad, *, engines: int = 1, **flags: object) -> Run:
    """Return the run of one load."""
    (run,) = simulate_recorded(engine_setup(SECOND_A_STEP, **flags), [load], engines)
    return run


def test_an_open_loop_sends_at_the_given_times() -> None:
    """Steps take a second: the first is alone until 1 s, the second joins the step from 1 s on."""
    first, second = run_of(RecordedLoad(requests([0.0, 0.5]))).records
    assert (first.arrival_s, first.first_token_s, first.last_token_s) == (0.0, 1.0, 3.0)
    assert (second.arrival_s, second.scheduled_s, second.first_token_s, second.last_token_s) == (0.5, 1.0, 2.0, 4.0)


def test_a_cap_holds_requests_back_and_latencies_count_from_the_send() -> None:
    """With one in flight, the second leaves when the first is answered, whatever its own time was."""
    first, second, third = run_of(RecordedLoad(requests([0.0, 0.5, 50.0]), most_in_flight=1)).records
    assert (first.last_token_s, second.arrival_s) == (3.0, 3.0)
    assert second.ttft_s == 1.0
    assert third.arrival_s == 50.0


def test_a_closed_loop_is_a_cap_with_all_times_zero() -> None:
    """Two clients, answers of 3 s each: four requests take two rounds."""
    run = run_of(RecordedLoad(requests([0.0] * 4), most_in_flight=2))
    assert [record.arrival_s for record in run.records] == [0.0, 0.0, 3.0, 3.0]
    assert run.duration_s == 6.0
    assert run.log.running_peak == 2


def test_a_client_stops_after_its_duration() -> None:
    """What is under way then is not finished, and nothing more is sent."""
    run = run_of(RecordedLoad(requests([0.0] * 99), most_in_flight=1, duration_s=7.5))
    assert run.duration_s == 7.5
    assert [record.outcome for record in run.records] == [Outcome.COMPLETED, Outcome.COMPLETED, Outcome.UNFINISHED]


def test_a_request_given_up_in_the_queue_never_runs() -> None:
    """One seat: the second waits its 2 s and leaves; the third, sent later, gets the seat."""
    load = RecordedLoad(requests([0.0, 0.1, 2.9]), time_out_s=2.0)
    first, second, third = run_of(load, max_num_seqs=1).records
    assert first.outcome is Outcome.ABORTED  # 3 s of work against 2 s of patience
    assert (second.outcome, math.isnan(second.scheduled_s)) == (Outcome.ABORTED, True)
    assert (third.outcome, third.scheduled_s) == (Outcome.ABORTED, 3.0)


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_request_given_up_while_it_runs_frees_its_seat_within_two_steps(*, async_scheduling: bool) -> None:
    """It would generate 50 tokens; given up at 5.5 s, it is gone when the next one begins."""
    both = requests([0.0], output=50) + requests([5.6], output=2)[:1]
    load = RecordedLoad(both, time_out_s=5.5)
    first, second = run_of(load, max_num_seqs=1, async_scheduling=async_scheduling).records
    assert first.outcome is Outcome.ABORTED
    assert 6.0 <= second.scheduled_s <= 8.0
    assert second.outcome is Outcome.COMPLETED


def test_the_overhead_comes_before_the_queue() -> None:
    """0.25 s before the engine sees the request; the cap waits for the answer."""
    load = RecordedLoad(requests([0.0, 0.0]), most_in_flight=1, per_request_s=0.25)
    first, second = run_of(load).records
    assert (first.queued_s, first.ttft_s, first.e2e_s) == (0.25, 1.25, 3.25)
    assert second.arrival_s == 3.25


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=12),
    st.integers(1, 40),
    st.integers(1, 20),
    st.floats(0, 2),
    st.booleans(),
)
def test_without_step_times_the_first_token_takes_what_the_client_adds(
    times: list[float],
    prompt: int,
    output: int,
    overhead_s: float,
    async_scheduling: bool,  # noqa: FBT001 - hypothesis fills it
) -> None:
    """Nothing but the overhead is left: whoever is in the way costs no time."""
    load = RecordedLoad(requests(sorted(times), prompt=prompt, output=output), per_request_s=overhead_s)
    (run,) = simulate_recorded(engine_setup(NOTHING, async_scheduling=async_scheduling), [load])
    assert [record.outcome for record in run.records] == [Outcome.COMPLETED] * len(times)
    assert [record.ttft_s for record in run.records] == pytest.approx([overhead_s] * len(times), abs=1e-9)


@given(st.integers(1, 3), st.integers(1, 6), st.floats(0.5, 30), st.integers(4, 9), st.booleans())
def test_every_request_ends_once_and_no_block_is_lost(
    engines: int,
    seats: int,
    patience_s: float,
    blocks: int,
    async_scheduling: bool,  # noqa: FBT001 - hypothesis fills it
) -> None:
    """However small the pool and however short the patience, all are answered, refused or given up."""
    setup = engine_setup(SECOND_A_STEP, num_gpu_blocks=blocks, max_num_seqs=seats, async_scheduling=async_scheduling)
    load = RecordedLoad(requests([0.3 * i for i in range(15)], prompt=30, output=7), time_out_s=patience_s)
    first, second = simulate_recorded(setup, [load, load], engines)
    for run in (first, second):
        assert {record.outcome for record in run.records} <= {Outcome.COMPLETED, Outcome.ABORTED}
        assert all(record.e2e_s <= patience_s for record in run.records if record.outcome is Outcome.COMPLETED)
    assert [record.arrival_s for record in second.records] == pytest.approx([r.arrival_s for r in first.records])


def test_loads_follow_each_other_on_a_server_that_remembers() -> None:
    """The second pass over the same prompts finds all full blocks but the last, and its times start at 0."""
    load = RecordedLoad(requests([0.0, 1.0], prompt=64))
    cold, warm = simulate_recorded(engine_setup(SECOND_A_STEP), [load, load])
    assert [record.hit_tokens for record in cold.records] == [0, 0]
    assert [record.hit_tokens for record in warm.records] == [48, 48]
    assert [record.arrival_s for record in warm.records] == [0.0, 1.0]
    assert warm.log.steps < 2 * cold.log.steps


def test_engines_behind_one_endpoint_share_the_requests() -> None:
    """Two engines of one seat each: the second request goes to the free one."""
    run = run_of(RecordedLoad(requests([0.0, 0.1, 0.2])), engines=2, max_num_seqs=1)
    assert [record.scheduled_s for record in run.records] == [0.0, 0.1, 3.0]
    assert run.log.running_peak == 2


def test_a_request_that_can_never_fit_is_refused_and_holds_nobody_up() -> None:
    """It counts as refused; the next one is sent."""
    both = requests([0.0], prompt=900) + requests([0.0])
    first, second = run_of(RecordedLoad(both, most_in_flight=1), max_model_len=500).records
    assert (first.outcome, second.outcome) == (Outcome.REFUSED, Outcome.COMPLETED)
