"""Runs small enough to be worked out on paper: when each token comes, what is hit, what is refused."""

import pytest
from engine_strategies import agent, closed, engine_setup, step_times

from sim.engine.clients import Population, StopRule
from sim.engine.frontend import FrontendTimes
from sim.engine.record import Outcome, Run
from sim.engine.simulation import LoadSetup, simulate
from workloads.arrivals import StaggeredStart

STEPS = step_times(overhead_s=1.0, per_token_s=0.01)


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_lone_session_of_two_turns_takes_the_times_worked_out_by_hand(*, async_scheduling: bool) -> None:
    """Alone, asynchronous scheduling changes nothing: no batch is decided before its request is there.

    Turn 1: 100 tokens, a step of 2 s; then two decode steps of 1.01 s. Turn 2: 203 tokens, of which the 102 with
    KV fill 6 blocks; 107 tokens are a step of 2.07 s. Before each turn 0.5 s of frontend, between them 2 s of thought.
    """
    setup = engine_setup(STEPS, frontend=FrontendTimes(0.5, 0.0), async_scheduling=async_scheduling)
    run = simulate(setup, closed(agent(turns=2, new=100, output=3, think_s=2.0), 1, sessions_per_client=1), seed=0)
    first, second = run.records
    assert (first.arrival_s, first.queued_s, first.scheduled_s) == (0.0, 0.5, 0.5)
    assert first.token_times_s == pytest.approx([2.5, 3.51, 4.52])
    assert (first.hit_tokens, first.prompt_tokens) == (0, 100)
    assert (second.arrival_s, second.queued_s, second.scheduled_s) == pytest.approx((6.52, 7.02, 7.02))
    assert second.token_times_s == pytest.approx([9.09, 10.10, 11.11])
    assert (second.hit_tokens, second.prompt_tokens) == (96, 203)
    assert (second.first_token_s, second.last_token_s) == pytest.approx((9.09, 11.11))
    assert (second.ttft_s, second.e2e_s) == pytest.approx((9.09 - 6.52, 11.11 - 6.52))
    assert run.duration_s == pytest.approx(11.11)  # nothing follows the last thought, so it is not waited for
    assert (run.log.steps, run.log.computed_tokens) == (6, 100 + 2 + 107 + 2)
    assert run.log.busy_s == pytest.approx(4.02 + 4.09)


def two_clients(*, async_scheduling: bool) -> Run:
    """Return a run in which a second client comes 0.3 s after the first, whose step of 2 s has begun."""
    population = Population("session", agent(new=100, output=4), StaggeredStart(0.6), clients=2)
    load = LoadSetup((population,), StopRule(sessions_per_client=1))
    return simulate(engine_setup(STEPS, async_scheduling=async_scheduling), load, seed=0)


def test_synchronous_scheduling_admits_a_newcomer_to_the_next_step() -> None:
    """It comes at 0.3; at 2 s a step of 101 tokens begins that holds its prompt and the other's second token."""
    first, second = two_clients(async_scheduling=False).records
    assert (second.queued_s, second.scheduled_s) == (0.3, 2.0)
    assert first.token_times_s == pytest.approx([2.0, 4.01, 5.03, 6.05])
    assert second.token_times_s == pytest.approx([4.01, 5.03, 6.05, 7.06])


def test_asynchronous_scheduling_lets_a_newcomer_miss_the_step_already_decided() -> None:
    """Step 2 was decided at 0 without it; it is scheduled at 2 s, while step 2 begins, and computed from 3.01 on.

    The newcomer's own last step runs alone: the first session's four tokens came in steps 1 to 4.
    """
    first, second = two_clients(async_scheduling=True).records
    assert (second.queued_s, second.scheduled_s) == (0.3, 2.0)
    assert first.token_times_s == pytest.approx([2.0, 3.01, 5.02, 6.04])
    assert second.token_times_s == pytest.approx([5.02, 6.04, 7.05, 8.06])


def test_a_prompt_beyond_the_budget_is_prefilled_in_chunks() -> None:
    """250 tokens by 100 a step: 2 + 2 + 1.5 s to the first token; each chunk's pairs are its own."""
    steps = step_times(overhead_s=1.0, per_token_s=0.01, per_pair_s=1e-4)
    run = simulate(
        engine_setup(steps, max_num_batched_tokens=100), closed(agent(new=250, output=1), 1, sessions_per_client=1), 0
    )
    pairs = 100 * 50.5 + 100 * 150.5 + 50 * 225.5
    assert run.records[0].token_times_s == pytest.approx([3 + 2.5 + pairs * 1e-4])
    assert pairs == 250 * 251 / 2


def test_two_turns_hit_as_a_peer_counted_by_hand() -> None:
    """A 10,000-token prefix, cold; 700 new tokens a turn, 299 come back: 10,992 of 22,399 prompt tokens, 0.4907.

    The figure is a peer's for one session of two turns. The first answer's last token has no KV yet, so 10,998
    tokens are there, and 687 full blocks of them.
    """
    load = closed(agent(10_000, 2, 700, 299), 1, warm=False, sessions_per_client=1)
    run = simulate(engine_setup(STEPS, max_model_len=20_000), load, 0)
    assert [record.hit_tokens for record in run.records] == [0, 10_992]
    prompts = sum(record.prompt_tokens for record in run.records)
    assert prompts == 22_399
    assert round(10_992 / prompts, 4) == 0.4907


def test_warm_start_lets_the_first_turn_hit_the_prefix() -> None:
    """62 full blocks of 1,000 tokens; from a cold start the first client computes them and the second hits them."""
    load = {"workload": agent(1_000, 1, 100, 5), "clients": 1, "sessions_per_client": 2}
    warm, cold = (simulate(engine_setup(STEPS), closed(warm=warm, **load), 0) for warm in (True, False))
    assert [record.hit_tokens for record in warm.records] == [992, 992]
    assert [record.hit_tokens for record in cold.records] == [0, 992]
    assert warm.log.evicted_blocks == cold.log.evicted_blocks == 0


def test_a_warm_start_in_a_pool_smaller_than_the_prefix_fills_what_there_is() -> None:
    """No error: 20 blocks of the prefix are put there, and the prompt that never fits is refused."""
    run = simulate(engine_setup(STEPS, num_gpu_blocks=21), closed(agent(1_000, 1, 10, 5), 1, sessions_per_client=1), 0)
    assert [record.outcome for record in run.records] == [Outcome.REFUSED]


def test_without_prefix_caching_nothing_is_hit() -> None:
    """Neither the warmed prefix nor the session's own turns."""
    setup = engine_setup(STEPS)
    off = type(setup)(setup.scheduler, setup.num_gpu_blocks, setup.steps, enable_prefix_caching=False)
    run = simulate(off, closed(agent(100, 3, 50, 5), 2, sessions_per_client=1), 0)
    assert [record.hit_tokens for record in run.records] == [0] * 6
    assert {record.outcome for record in run.records} == {Outcome.COMPLETED}


@pytest.mark.parametrize(
    ("blocks", "limit"), [(1 + 7, 8_192), (1 << 10, 100)], ids=["more blocks than the pool", "max_model_len"]
)
@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_turn_that_can_never_fit_is_refused_and_its_session_ends(
    *, blocks: int, limit: int, async_scheduling: bool
) -> None:
    """100 new tokens a turn: turn 1 fits neither 7 blocks with its answer nor a limit of 100. Others go on."""
    setup = engine_setup(STEPS, num_gpu_blocks=blocks, max_model_len=limit, async_scheduling=async_scheduling)
    load = LoadSetup(
        (
            Population("long", agent(turns=2, new=100, output=20), StaggeredStart(0.0), clients=1),
            Population("short", agent(turns=2, new=20, output=5), StaggeredStart(0.0), clients=1),
        ),
        StopRule(duration_s=59.5),
    )
    run = simulate(setup, load, seed=0)
    refused = [record for record in run.records if record.outcome is Outcome.REFUSED]
    assert {record.population for record in refused} == {"long"}
    assert {record.turn for record in refused} == {0}
    assert len(refused) == 60  # a second each: a client without think time does not spin
    assert sum(record.outcome is Outcome.COMPLETED for record in run.records) == 11  # 5 tokens are 5 s or more


def test_a_run_in_which_every_turn_is_refused_ends() -> None:
    """Under a rule that counts requests: as many refusals end it as completions would."""
    run = simulate(engine_setup(STEPS, max_model_len=50), closed(agent(new=100), 2, requests=5), seed=0)
    assert [record.outcome for record in run.records].count(Outcome.REFUSED) >= 5
    assert run.duration_s == pytest.approx(3.0)


def test_output_is_cut_where_max_model_len_ends() -> None:
    """A prompt of 90 leaves room for 10 tokens of the 50 asked for."""
    run = simulate(
        engine_setup(STEPS, max_model_len=100), closed(agent(new=90, output=50), 1, sessions_per_client=1), 0
    )
    assert run.records[0].output_tokens == len(run.records[0].token_times_s) == 10


def test_busy_time_is_that_of_steps_that_ended() -> None:
    """A run stopped at 10.5 s amid steps of 1 s was busy for 10 s: never more than it lasted."""
    for async_scheduling in (False, True):
        setup = engine_setup(step_times(overhead_s=1.0), async_scheduling=async_scheduling)
        run = simulate(setup, closed(agent(new=100, output=50), 1, duration_s=10.5), seed=0)
        assert (run.log.busy_s, run.duration_s) == (10.0, 10.5)


def test_a_preemption_in_mid_prefill_counts_only_what_was_computed() -> None:
    """The chunks of a prompt that were never computed are no re-prefill when it comes back.

    Of 26 blocks a decoding request has 7; a prompt of 300 gets the other 19 promised (the gate), but the decoding
    one takes one of them for its 113th token. Short of its last block, the prompt is preempted after 276 tokens, and
    hits 17 full blocks of them when it is resumed: 4 tokens are computed twice, the 24 after them for the first time.
    """
    steps = step_times(overhead_s=1.0)
    setup = engine_setup(steps, num_gpu_blocks=1 + 26, max_num_batched_tokens=65, max_model_len=400)
    load = LoadSetup(
        (
            Population("first", agent(new=110, output=12), StaggeredStart(0.0), clients=1),
            Population("second", agent(new=300, output=2), StaggeredStart(0.0), clients=1),
        ),
        StopRule(sessions_per_client=1),
        warm_start=False,
    )
    second = simulate(setup, load, seed=0).records[1]
    assert second.preemptions == 1
    assert second.outcome is Outcome.COMPLETED
    assert second.reprefilled_tokens == 276 - 17 * 16
