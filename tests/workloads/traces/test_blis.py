"""BLIS's workload specifications: rates, lengths, sessions and prefixes of clients, in order of time."""

from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from trace_requests import SAMPLES, check_growth, needs_samples, opened, read, shared_tokens

from workloads.errors import WorkloadError

BLIS = SAMPLES / "workload_specs" / "blis"
LENGTH = {"type": "constant", "params": {"value": 100}}


def client(**keys: Any) -> dict[str, Any]:
    """Return a client that sends by rate."""
    usual = {"rate_fraction": 1.0, "arrival": {"process": "poisson"}}
    return usual | {"input_distribution": LENGTH, "output_distribution": LENGTH} | keys


def spec(path: Path, *clients: dict[str, Any], **keys: Any) -> Path:
    """Write a specification of 10 requests a second."""
    path.write_text(yaml.safe_dump({"version": "2", "aggregate_rate": 10.0, "clients": list(clients)} | keys))
    return path


@needs_samples
def test_the_short_form_has_its_rates_and_groups() -> None:
    """8 then 20 requests a second for 600 s each, nine prompts of 100 tokens before 447 of their own."""
    requests = read(BLIS / "inference-perf-shared-prefix.yaml")
    times = np.array([one.at_s for one in requests])
    assert np.all(np.diff(times) >= 0)
    assert np.sum(times < 600) == pytest.approx(4800, abs=4 * 4800**0.5)
    assert np.sum(times >= 600) == pytest.approx(12_000, abs=4 * 12_000**0.5)
    assert times[-1] < 1200
    assert {one[1:3] for one in requests} == {(547, 248)}
    groups = Counter(one.content[0] for one in requests if isinstance(one.content, tuple))
    assert len(groups) == 9
    assert all(count == pytest.approx(len(requests) / 9, rel=0.15) for count in groups.values())


@needs_samples
def test_conversations_of_the_demo_grow() -> None:
    """500 requests are 100 sessions of 5 rounds, 0.5 s apart at the least, begun at 500 a second."""
    trace = opened(BLIS / "multiturn-chat-demo.yaml")
    requests = list(trace)
    assert Counter(one.session for one in requests).most_common()[::99] == [
        (requests[0].session, 5),
        (next(reversed(Counter(one.session for one in requests))), 5),
    ]
    check_growth(requests)
    assert {one.gap_s for one in requests} == {None, 0.5}
    times = [one.at_s or 0.0 for one in requests]
    assert times == sorted(times)
    starts = [one.at_s or 0.0 for one in requests if one.gap_s is None]
    assert len(starts) == 100
    assert starts[-1] == pytest.approx(100 / 500, rel=0.3)
    assert np.mean([one.output_tokens for one in requests]) == pytest.approx(64, rel=0.05)
    assert len({one.session for one in read(trace.path, sessions=7)}) == 7


def test_rates_are_shared_by_fraction(tmp_path: Path) -> None:
    """Whatever the fractions sum to; a prefix without a length has 50 tokens."""
    one, other = client(id="one", rate_fraction=3), client(id="other", rate_fraction=1, prefix_group="p")
    requests = read(spec(tmp_path / "a.yaml", one, other, horizon=1_000_000_000))
    assert len(requests) == pytest.approx(10_000, abs=400)
    prompts = Counter(request.prompt_tokens for request in requests)
    assert prompts[150] / len(requests) == pytest.approx(0.25, abs=0.02)
    assert set(prompts) == {100, 150}
    shared = [request for request in requests if request.prompt_tokens == 150][:2]
    assert shared_tokens(*shared) == 50


@pytest.mark.parametrize(
    ("arrival", "cv"),
    [
        ({"process": "poisson"}, 1.0),
        ({"process": "constant"}, 0.0),
        ({"process": "gamma", "cv": 2.0}, 2.0),
        ({"process": "weibull", "cv": 1.5}, 1.5),
        ({"process": "gamma", "shape": 4.0, "scale": 25_000}, 0.5),
        ({"process": "weibull", "shape": 1.0, "scale": 100_000}, 1.0),
    ],
)
def test_gaps_have_their_spread(tmp_path: Path, arrival: dict[str, Any], cv: float) -> None:
    """And a mean of a tenth of a second each."""
    gaps = np.diff(
        [one.at_s or 0.0 for one in read(spec(tmp_path / "a.yaml", client(arrival=arrival), num_requests=8000))]
    )
    assert gaps.mean() == pytest.approx(0.1, rel=0.08)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "params", "mean"),
    [
        ("gaussian", {"mean": 300, "std_dev": 50, "min": 1, "max": 1000}, 300),
        ("exponential", {"mean": 300}, 300),
        ("lognormal", {"mu": 5.5, "sigma": 0.5}, np.exp(5.625)),
        (
            "pareto_lognormal",
            {"alpha": 3, "xm": 200, "mu": 5.5, "sigma": 0.5, "mix_weight": 0.5},
            150 + np.exp(5.625) / 2,
        ),
        ("empirical", {"10": 3, "30": 1}, 15),
        ("constant", {"value": 0}, 1),
    ],
)
def test_lengths_have_their_means(tmp_path: Path, kind: str, params: dict[str, float], mean: float) -> None:
    """At least a token each."""
    one = client(input_distribution={"type": kind, "params": params})
    requests = read(spec(tmp_path / "a.yaml", one, num_requests=8000))
    assert np.mean([request.prompt_tokens for request in requests]) == pytest.approx(mean, rel=0.05)


def test_windows_and_cohorts_say_when(tmp_path: Path) -> None:
    """Rates are whole in each phase; cohorts are as many clients, with prefixes of their own if asked."""
    early = client(lifecycle={"windows": [{"start_us": 0, "end_us": 100_000_000}]})
    late = client(lifecycle={"windows": [{"start_us": 100_000_000, "end_us": 200_000_000, "trace_rate": 5}]})
    requests = read(spec(tmp_path / "a.yaml", early, late))
    assert len(requests) == pytest.approx(2000, abs=180)
    cohort = client(
        population=20, prefix_group="p", prefix_sharing="per_member", spike={"start_time_us": 0, "duration_us": 1e8}
    )
    requests = read(spec(tmp_path / "b.yaml", cohorts=[cohort]))
    assert len(requests) == pytest.approx(1000, abs=130)
    assert len({one.content[0] for one in requests if isinstance(one.content, tuple)}) == 20
    drain = client(population=3, arrival={"process": "constant"}, drain={"start_time_us": 1e8, "ramp_duration_us": 1e8})
    times = np.array([one.at_s for one in read(spec(tmp_path / "c.yaml", cohorts=[drain]))])
    assert np.sum(times < 100) == pytest.approx(1000, abs=20)
    assert np.sum(times >= 100) == pytest.approx(550, abs=60)
    day = client(diurnal={"peak_hour": 14, "peak_to_trough_ratio": 4})
    hours = Counter(int((one.at_s or 0.0) // 3600) for one in read(spec(tmp_path / "d.yaml", day, aggregate_rate=0.1)))
    assert hours[14] / hours[2] == pytest.approx(4, rel=0.4)


def test_absolute_rates_need_windows(tmp_path: Path) -> None:
    """A rate is somewhere, or the file is refused."""
    window = {"start_us": 0, "end_us": 100_000_000, "trace_rate": 5}
    path = spec(tmp_path / "a.yaml", client(lifecycle={"windows": [window]}), aggregate_rate=0)
    assert len(read(path)) == pytest.approx(500, abs=90)
    with pytest.raises(WorkloadError, match=r"clients\[0\]: no rate"):
        read(spec(tmp_path / "b.yaml", client(), aggregate_rate=0))


def test_clients_that_wait_come_in_turns(tmp_path: Path) -> None:
    """As many users as the concurrency says, each with its think time; nothing but the prefix is shared."""
    waiting = client(rate_fraction=0, concurrency=4, think_time_us=2_000_000, prefix_group="p", prefix_length=64)
    trace = opened(spec(tmp_path / "a.yaml", waiting, num_requests=40))
    requests = list(trace)
    assert Counter(Counter(one.session for one in requests).values()) == {10: 4}
    assert {one.gap_s for one in requests} == {None, 2.0}
    assert all(shared_tokens(one, other) == 64 for one, other in pairwise(requests))
    assert any("wait for answers" in note for note in trace.notes)


def test_rounds_without_growth_stand_alone(tmp_path: Path) -> None:
    """As in BLIS: a session whose prompts do not hold what came before."""
    turns = {"multi_turn": {"max_rounds": 3, "think_time_us": 1000}}
    requests = read(spec(tmp_path / "a.yaml", client(reasoning=turns), num_requests=30))
    assert {one.prompt_tokens for one in requests} == {100}
    assert Counter(Counter(one.session for one in requests).values()) == {3: 10}
    single = {"multi_turn": turns["multi_turn"] | {"single_session": True}}
    assert len(read(spec(tmp_path / "b.yaml", client(reasoning=single, id="x"), num_requests=30))) == 3


def test_without_an_end_a_thousand_are_drawn(tmp_path: Path) -> None:
    """Said in a note; and as many as anybody asks for are there."""
    trace = opened(spec(tmp_path / "a.yaml", client()))
    assert len(list(trace)) == 1000
    assert any("1,000 are drawn" in note for note in trace.notes)
    path = spec(tmp_path / "b.yaml", client(), num_requests=10**12)
    assert len(list(islice(opened(path), 2000))) == 2000
    assert list(islice(opened(path, seed=4), 50)) == list(islice(opened(path, seed=4), 50))
    assert list(islice(opened(path, seed=4), 50)) != list(islice(opened(path, seed=5), 50))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"clients": []}, "no clients, cohorts or inference_perf"),
        ({"clients": None, "servegen_data": {"path": "x"}}, "open their folder"),
        ({"aggregate_rate": -1}, "aggregate_rate: expected float >= 0"),
        ({"aggregate_rate": float("nan")}, "aggregate_rate: expected float >= 0"),
        ({"aggregate_rate": 1e300}, "aggregate_rate: expected float <= 1"),
        ({"num_requests": 1.5}, "num_requests: expected int"),
        ({"clients": [client(arrival={"process": "poison"})]}, "'poison' is not one of .*did you mean 'poisson'"),
        (
            {"clients": [client(arrival={"process": "gamma", "cv": 0})]},
            r"clients\[0\].arrival.cv: expected float >=",
        ),
        ({"clients": [client(input_distribution={"type": "gausian"})]}, "did you mean 'gaussian'"),
        ({"clients": [client(input_distribution={"type": "gaussian", "params": {"mean": 1}})]}, "key missing: std_dev"),
        ({"clients": [client(input_distribution={"type": "empirical", "params": {"x": 1}})]}, "'x' must be a number"),
        ({"clients": [client(input_distribution={"type": "empirical", "params": {"5": 0}})]}, "weights sum to 0"),
        (
            {"clients": [client(input_distribution={"type": "exponential", "params": {"mean": 1e300}})]},
            r"clients\[0\].input_distribution.params.mean 1e\+300 must be",
        ),
        ({"clients": [{"id": "x"}]}, "key missing: input_distribution"),
        (
            {"clients": [client(lifecycle={"windows": [{"start_us": 5, "end_us": 5}]})]},
            "end_us 5 must be above start_us 5",
        ),
        ({"clients": [client(lifecycle={"windows": []})]}, "windows: expected array of length >= 1"),
        ({"cohorts": [client(population=10**9)]}, "population: expected int <= 100000"),
        ({"clients": [client(reasoning={"multi_turn": {"max_rounds": 0}})]}, "max_rounds: expected int >= 1"),
        ({"inference_perf": {"stages": []}}, "stages: expected array of length >= 1"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    """Before anything is drawn."""
    with pytest.raises(WorkloadError, match=message):
        read(spec(tmp_path / "a.yaml", client(), **keys))
