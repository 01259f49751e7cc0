"""What is sent again for a measured load point: lengths, times, sharing and sessions, by what the result states."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.compare.arrivals import arrivals_of
from calibrate.compare.errors import MOST, loss, misfits
from calibrate.compare.load import SentLoad, sent_load
from calibrate.compare.points import comparable
from calibrate.compare.regimes import regime_of
from calibrate.compare.search_load import matched, shortened
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun
from sim.engine.recorded import simulate_recorded
from sim.errors import MeasurementError
from sim.load import load_deployment
from workloads.recorded import RecordedRequest, RecordedSession
from workloads.span import total_tokens

BASE = load_deployment(Path(__file__).parents[3] / "scenarios" / "l4-qwen3-4b-fp8.yaml")
RUN = MeasuredRun(
    file=Path("bench.json"),
    format="test",
    load=MeasuredLoad(concurrency=4, requests=12),
    completed=12,
    input_tokens_mean=100.0,
    output_tokens_mean=10.0,
    metrics={"ttft_p50_s": 0.1},
)


def sent(run: MeasuredRun, **options: int) -> SentLoad:
    """Return what is sent on the L4."""
    return sent_load(run, BASE.parts, 0, **options)


def asked(load: SentLoad) -> list[RecordedRequest]:
    """Return single requests."""
    return [one for one in load.load.requests if isinstance(one, RecordedRequest)]


def listed(count: int, **fields: object) -> tuple[MeasuredRequest, ...]:
    """Return requests a second apart."""
    return tuple(
        replace(MeasuredRequest(100 + number, 5, sent_s=float(number), ttft_s=0.1, e2e_s=0.5), **fields)  # type: ignore[arg-type]
        for number in range(count)
    )


def test_means_make_a_closed_loop_of_equal_requests() -> None:
    """As many in flight as stated, and it is said that the lengths are means."""
    load = sent(RUN)
    assert load.load.most_in_flight == 4
    assert [total_tokens(one.prompt.spans) for one in asked(load)] == [100] * 12
    assert {one.prompt.output.length for one in asked(load)} == {10}
    assert any("by their means" in note for note in load.notes)
    assert not load.drawn


def test_listed_lengths_and_times_are_kept_and_failures_left_out() -> None:
    """Without a cap the listed times are those of an open loop."""
    requests = (*listed(5), MeasuredRequest(100, 0, sent_s=2.0, failed=True))
    load = sent(replace(RUN, load=MeasuredLoad(rate_per_s=1.0), requests=requests))
    assert [one.at_s for one in asked(load)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [total_tokens(one.prompt.spans) for one in asked(load)] == [100, 101, 102, 103, 104]
    assert "1 listed requests that failed are left out" in load.notes
    assert load.span_s == 4.0


def test_measured_hits_are_what_prompts_share() -> None:
    """Else the scenario's prefix, where prompts are longer than it; else nothing."""
    hits = sent(replace(RUN, metrics={"prefix_hit_rate": 0.4}))
    assert {one.prompt.spans[0].length for one in asked(hits)} == {40}
    assert hits.load.warm[0].length == 40
    long = sent(replace(RUN, input_tokens_mean=12000.0))
    assert {one.prompt.spans[0].length for one in asked(long)} == {10000}
    random = sent(replace(RUN, input_tokens_mean=12000.0, settings={"dataset_name": "random"}))
    assert len({one.prompt.spans[0].content for one in asked(random)}) == 12
    assert any("share nothing" in note for note in sent(RUN).notes)


def test_sessions_wait_for_their_answers_and_pause_as_measured() -> None:
    """Turn two was sent 2.5 s after an answer; its prompt holds turn one's with its answer."""
    turns = (
        MeasuredRequest(100, 20, sent_s=0.0, ttft_s=0.1, e2e_s=0.5, session="a", turn=0),
        MeasuredRequest(150, 20, sent_s=3.0, ttft_s=0.1, e2e_s=0.5, session="a", turn=1),
        MeasuredRequest(100, 20, sent_s=9.0, ttft_s=0.1, e2e_s=0.5, session="b", turn=0),
    )
    load = sent(replace(RUN, load=MeasuredLoad(sessions=True), requests=turns))
    first, second = load.load.requests
    assert isinstance(first, RecordedSession)
    assert isinstance(second, RecordedSession)
    assert (first.at_s, second.at_s) == (0.0, 9.0)
    assert [turn.pause_s for turn in first.turns] == [0.0, 2.5]
    assert load.span_s == 9.0  # of all turns
    (run,) = simulate_recorded(BASE.engine, [load.load])
    one, two, _ = sorted(run.records, key=lambda record: record.arrival_s)
    assert two.arrival_s == pytest.approx(one.last_token_s + 2.5)
    assert two.hit_tokens == 112  # 100 + 20 - the last token, in whole blocks of 16


def test_the_scenario_says_what_a_result_does_not() -> None:
    """Sessions of its workload, as many as the requests make, four at a time."""
    load = sent(replace(RUN, load=MeasuredLoad(concurrency=4, requests=48, sessions=True)))
    assert len(tuple(load.load.requests)) == 4
    assert load.requests == 48
    assert any("the scenario's workload" in note for note in load.notes)


@given(st.floats(0.1, 10), st.floats(0.5, 50), st.integers(2, 200))
def test_rates_last_as_long_as_they_say(burstiness: float, rate: float, count: int) -> None:
    """As vLLM's benchmark stretches them: n requests take n / rate seconds."""
    run = replace(RUN, load=MeasuredLoad(rate_per_s=rate, burstiness=burstiness, requests=count))
    times = arrivals_of(run, count, 0).times_s
    assert times[-1] == pytest.approx(count / rate)
    assert np.all(np.diff(times) >= 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_tokens_mean": 1e15}, "input tokens 1e\\+15"),
        ({"output_tokens_mean": 1e308}, "output tokens 1e\\+308"),
        ({"load": MeasuredLoad(requests=10**15)}, "1,000,000,000,000,000 requests are more"),
        ({"load": MeasuredLoad(concurrency=10**15, sessions=True)}, "1,000,000,000,000,000 requests are more"),
        ({"load": MeasuredLoad(rate_per_s=1e-300)}, "a rate of 1e-300"),
        ({"requests": (MeasuredRequest(10**15, 1),)}, "prompt_tokens 1e\\+15"),
        ({"input_tokens_mean": 9e6, "load": MeasuredLoad(requests=10**6)}, "--limit-requests"),
    ],
)
def test_absurd_loads_are_one_clear_line(changes: dict[str, object], words: str) -> None:
    """Before anything is simulated or allocated."""
    with pytest.raises(MeasurementError, match=f"bench.json: .*{words}"):
        sent(replace(RUN, **changes))  # type: ignore[arg-type]


def test_long_loads_are_shortened_for_the_search_only() -> None:
    """A thousand requests, or three rounds of what is in flight; the error stays what it was."""
    load = sent(replace(RUN, load=MeasuredLoad(concurrency=1000, requests=5000)))
    assert len(tuple(shortened(load).load.requests)) == 3000
    assert shortened(sent(RUN)) == sent(RUN)
    whole, short = {"ttft_p50_s": 2.0, "requests": 1.0}, {"ttft_p50_s": 1.0, "requests": 1.0}
    (seen,) = matched([{"ttft_p50_s": 3.0}], [whole], [short])
    assert loss([seen], [short]) == pytest.approx(loss([{"ttft_p50_s": 3.0}], [whole]))


def test_many_points_are_shortened_more() -> None:
    """A sweep of twenty points takes minutes, not a quarter of an hour."""
    load = sent(replace(RUN, load=MeasuredLoad(concurrency=4, requests=2000)))
    assert [shortened(load, points).requests for points in (1, 8, 10, 40)] == [1000, 1000, 800, 400]


def test_a_served_rate_stands_for_one_that_is_not_stated() -> None:
    """And a result that says nothing of how it was sent is left out."""
    open_loop = replace(RUN, load=MeasuredLoad(requests=12), metrics={"ttft_p50_s": 0.1, "requests_per_s": 2.0})
    assert any("Poisson at the rate that was served" in note for note in sent(open_loop).notes)
    with pytest.raises(MeasurementError, match="neither concurrency, rate, send times nor throughput"):
        comparable([replace(open_loop, metrics={"ttft_p50_s": 0.1})])


def test_regimes_say_why() -> None:
    """By the KV cache, by the offered rate, by the seats."""
    closed, open_loop = sent(RUN), sent(replace(RUN, load=MeasuredLoad(rate_per_s=4.0, requests=12)))
    fast, slow = {"ttft_p99_s": 1.0}, {"ttft_p99_s": 9.0}
    assert regime_of({}, slow, fast, closed, 8).name == "beyond"
    assert regime_of({}, {"ttft_p99_s": 2.0}, fast, closed, 8).name == "at"
    assert regime_of({}, fast, fast, closed, 8).name == "below"
    assert "seats" in regime_of({}, fast | {"running_peak": 2.0}, fast, closed, 2).why
    served = {"requests_per_s": 1.0, "e2e_mean_s": 1.0}
    assert "are sent, 1 served (measured)" in regime_of(served, fast, fast, open_loop, 8).why
    assert regime_of({"requests_per_s": 4.0, "e2e_mean_s": 1.0}, fast, fast, open_loop, 8).name == "below"


def test_an_unanswered_prediction_is_the_largest_error() -> None:
    """It does not drop out of the mean."""
    measured = [{"ttft_p50_s": 1.0}, {"ttft_p50_s": 1.0}]
    assert misfits(measured, [{"ttft_p50_s": 1.0, "requests": 1.0}, {"requests": 0.0}])["TTFT"] == pytest.approx(
        math.exp(MOST / math.sqrt(2))
    )
