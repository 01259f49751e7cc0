"""What is sent: recorded requests, and loops rebuilt from a row."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from e2e_folders import engine_clock_rows, folder, write
from hypothesis import given
from hypothesis import strategies as st

from calibrate.validation.e2e_experiments import Experiment, read_experiments
from calibrate.validation.e2e_lengths import answers, chat_prompts
from calibrate.validation.e2e_prompts import conversations
from calibrate.validation.e2e_traffic import Session, sessions_of
from sim.errors import MeasurementError
from workloads.span import total_tokens

CYCLED = "100 distinct prompts cycled (inferred); 3 system prompts of 40 tokens + question 160 tokens"


def sent(path: Path, row: dict[str, object], *points: dict[str, object], limit: int | None = None) -> list[Session]:
    """Return the sessions of a folder's one experiment."""
    (experiment,) = read_experiments(folder(path, [row], points or [{}]))
    return sessions_of(experiment, path, 0, limit)


def test_engine_clock_requests_are_sent_when_they_were_queued(tmp_path: Path) -> None:
    """Latencies on the measured side count from there too."""
    write(tmp_path / "e2e_requests_toy_a.csv", engine_clock_rows(40))
    ((stage,),) = sent(tmp_path, {})
    requests = list(stage.load.requests)
    assert [request.at_s for request in requests[:3]] == [0.0, 0.5, 1.0]
    assert {total_tokens(request.prompt.spans) for request in requests} == {200}
    assert stage.measured["ttft_mean_s"] == pytest.approx(0.02)
    assert stage.measured["tpot_p99_s"] == pytest.approx(0.005)
    assert stage.measured["requests_per_s"] == pytest.approx(40 / (19.5 + 0.02 + 0.095))


def test_a_capped_client_sends_from_its_arrivals_and_the_row_names_the_cap(tmp_path: Path) -> None:
    """A file may hold several experiments; only this one's rows count, in order of arrival."""
    rows = [
        {"experiment_id": name, "arrival_s": at_s, "send_s": at_s + 1, "server_input_tokens": 9, "output_tokens": 4,
         "ttft_ms": 30, "e2e_ms": 60}
        for name, at_s in (("toy_a", 5.0), ("toy_b", 4.0), ("toy_a", 3.0))
    ]  # fmt: skip
    write(tmp_path / "shared.csv", rows)
    row = {"notes": "per-request file shared.csv", "arrival": "open loop Poisson 2 req/s, client cap 256 in flight"}
    ((stage,),) = sent(tmp_path, row)
    assert stage.load.most_in_flight == 256
    assert [request.at_s for request in stage.load.requests] == [0.0, 2.0]
    assert stage.measured["requests_per_s"] == pytest.approx(2 / 2.06)


def cycled_rows(count: int, failed: int = 0) -> list[dict[str, object]]:
    """Return requests over a cycle of 4 prompts, the last of them failed and without a length."""
    return [
        {"arrival_s": i / 4, "prompt_cycle_id": i % 4, "input_tokens": 200 + i % 4 if i < count - failed else 0,
         "ttft_ms": 20 if i < count - failed else "", "e2e_ms": 120 if i < count - failed else 300000,
         "error": int(i >= count - failed)}
        for i in range(count)
    ]  # fmt: skip


def test_cycled_prompts_come_again_and_failures_count_apart(tmp_path: Path) -> None:
    """A failed request has its prompt's length and is no part of the latencies; the client waits 300 s."""
    write(tmp_path / "e2e_requests_toy_a.csv", cycled_rows(12, failed=2))
    ((stage,),) = sent(tmp_path, {"client": "inference-perf", "prefix_sharing": CYCLED})
    prompts = [request.prompt.spans for request in stage.load.requests]
    assert prompts[0] == prompts[4] == prompts[8]
    assert [total_tokens(spans) for spans in prompts] == [200, 201, 202, 203] * 3
    assert prompts[0][0] == prompts[3][0]  # 3 system prompts: the first and the fourth prompt share one
    assert prompts[0][0].length == 40
    assert (stage.measured["failed"], stage.measured["requests"]) == (2, 10)
    assert stage.load.time_out_s == 300


def test_stages_of_one_file_are_told_apart_by_their_counts(tmp_path: Path) -> None:
    """Each starts at 0 again; a count that does not add up is an error."""
    write(tmp_path / "e2e_requests_toy_a.csv", cycled_rows(12))
    ((first, second),) = sent(
        tmp_path, {"prefix_sharing": CYCLED}, {"requests": "8"}, {"load_value": "4", "requests": "4"}
    )
    assert [len(list(stage.load.requests)) for stage in (first, second)] == [8, 4]
    assert next(iter(second.load.requests)).at_s == 0.0
    with pytest.raises(MeasurementError, match="points count 13 requests, its per-request file 12"):
        sent(tmp_path, {"prefix_sharing": CYCLED}, {"requests": "8"}, {"load_value": "4", "requests": "5"})


def test_a_poisson_loop_lasts_exactly_requests_over_rate(tmp_path: Path) -> None:
    """As vLLM's own benchmark stretches its gaps; all prompts are of one length and share nothing."""
    ((stage,),) = sent(tmp_path, {})
    times = [request.at_s for request in stage.load.requests]
    assert times[-1] == pytest.approx(20.0)
    assert all(a < b for a, b in pairwise(times))
    assert len({request.prompt.spans for request in stage.load.requests}) == 40


def test_a_closed_loop_is_capped_and_lasts_as_long_as_stated(tmp_path: Path) -> None:
    """There are more requests than the clients can get answered in that time."""
    point = {"load_kind": "concurrency", "load_value": "8", "requests": "", "duration_s": "60", "e2e_mean_ms": "1000"}
    ((stage,),) = sent(tmp_path, {"client": "GuideLLM, warmup and cooldown 10 %"}, point)
    assert (stage.load.most_in_flight, stage.load.duration_s, stage.trimmed, stage.span_s) == (8, 60, 0.1, None)
    assert len(list(stage.load.requests)) > 8 * 60
    assert {request.at_s for request in stage.load.requests} == {0.0}


def test_rates_of_one_server_session_meet_the_same_prompts(tmp_path: Path) -> None:
    """One session of two stages, so the second finds what the first left."""
    row = {"notes": "all rates run in one server session, so later rates start warm"}
    (session,) = sent(tmp_path, row, {}, {"load_value": "4"})
    first, second = (list(stage.load.requests) for stage in session)
    assert [request.prompt.spans for request in first] == [request.prompt.spans for request in second]
    assert second[-1].at_s == pytest.approx(10.0)


def test_a_limit_cuts_every_stage(tmp_path: Path) -> None:
    """The first requests stay what they were."""
    ((whole,),) = sent(tmp_path, {})
    ((cut,),) = sent(tmp_path, {}, limit=5)
    assert list(cut.load.requests) == list(whole.load.requests)[:5]


def test_warm_up_requests_are_sent_and_do_not_count(tmp_path: Path) -> None:
    """Of 12 requests in two stages the first 3 are left out, and only of the first stage."""
    rows = cycled_rows(12)
    for row in rows[:3]:
        row["ttft_ms"] = 900
    write(tmp_path / "e2e_requests_toy_a.csv", rows)
    points = [{"requests": "8"}, {"load_value": "4", "requests": "4"}]
    (experiment,) = read_experiments(folder(tmp_path, [{"prefix_sharing": CYCLED}], points))
    ((first, second),) = sessions_of(experiment, tmp_path, 0, None, warm_up=3)
    assert [len(list(stage.load.requests)) for stage in (first, second)] == [8, 4]
    assert [stage.measured["requests"] for stage in (first, second)] == [5, 4]
    assert first.measured["ttft_p99_s"] == pytest.approx(0.02)
    assert (first.requests, first.span_s, first.warm_up, second.warm_up) == (5, 1.0, 3, 0)


@pytest.mark.parametrize(
    ("row", "point", "reason"),
    [
        ({}, {"load_kind": "stage_index"}, "rates of its stages are not stated"),
        ({}, {"load_kind": "moon_phase"}, "load kind 'moon_phase' is not one"),
        ({"input_tokens_mean": ""}, {}, "how long the prompts are is not stated"),
        ({}, {"load_kind": "concurrency", "load_value": "0"}, "must be at least 1"),
        ({"notes": "per-request file gone.csv"}, {}, "gone.csv: No such file"),
    ],
)
def test_what_cannot_be_sent_again_says_why(
    tmp_path: Path, row: dict[str, object], point: dict[str, object], reason: str
) -> None:
    """One line each."""
    with pytest.raises(MeasurementError, match=reason):
        sent(tmp_path, row, point)


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("queued_s", "nan", r":5: queued_s 'nan' must be a finite number"),
        ("queued_s", "soon", r":5: queued_s 'soon' must be a finite number"),
        ("input_tokens", "0", r":5: input_tokens must be at least 1"),
    ],
)
def test_a_broken_cell_of_a_request_file_is_named_with_its_line(
    tmp_path: Path, column: str, cell: str, reason: str
) -> None:
    """The header is line 1."""
    rows = engine_clock_rows(6)
    rows[3][column] = cell
    write(tmp_path / "e2e_requests_toy_a.csv", rows)
    with pytest.raises(MeasurementError, match=reason):
        sent(tmp_path, {})


def test_an_empty_request_file_and_a_missing_column_are_errors(tmp_path: Path) -> None:
    """Neither ends in a traceback."""
    path = tmp_path / "e2e_requests_toy_a.csv"
    path.write_text("", encoding="utf-8")
    with pytest.raises(MeasurementError, match="No columns"):
        sent(tmp_path, {})
    write(path, [{key: cell for key, cell in row.items() if key != "last_token_s"} for row in engine_clock_rows(3)])
    with pytest.raises(MeasurementError, match="column 'last_token_s' is missing"):
        sent(tmp_path, {})


@given(st.floats(20, 2000), st.floats(0.4, 0.98), st.floats(1.2, 4.0), st.floats(1.05, 2.0), st.integers(0, 9))
def test_answers_keep_their_mean_and_take_the_shape_of_the_end_to_end_times(
    mean: float, middle: float, high: float, highest: float, seed: int
) -> None:
    """The mean holds exactly up to rounding; the order of the percentiles is theirs."""
    e2e = {"e2e_mean_s": 2.0, "e2e_p50_s": 2 * middle, "e2e_p95_s": 2 * middle * high}
    e2e["e2e_p99_s"] = e2e["e2e_p95_s"] * highest
    lengths = answers(mean, 400, e2e, np.random.default_rng(seed))
    assert lengths.min() >= 1
    assert lengths.mean() == pytest.approx(mean, rel=0.1)
    assert np.percentile(lengths, 95) > np.percentile(lengths, 50)


def test_answers_are_of_one_length_where_nothing_says_otherwise() -> None:
    """No percentiles, or percentiles as good as equal."""
    rng = np.random.default_rng(0)
    assert set(answers(128.0, 5, {}, rng).tolist()) == {128}
    flat = {"e2e_mean_s": 2.0, "e2e_p50_s": 2.0, "e2e_p95_s": 2.1, "e2e_p99_s": 2.2}
    assert set(answers(128.0, 5, flat, rng).tolist()) == {128}
    assert chat_prompts(200.0, 300, rng).mean() == pytest.approx(200, rel=0.02)


def test_conversations_grow_from_shared_starters_to_the_stated_mean(tmp_path: Path) -> None:
    """All turns of all conversations: their mean is the row's, and turns of one conversation extend each other."""
    sharing = "20 conversations x up to 5 turns grown from 4 starters; each turn sent as one prompt"
    (experiment,) = read_experiments(folder(tmp_path, [{"prefix_sharing": sharing}], [{}]))
    prompts = conversations(experiment, 3000.0, np.random.default_rng(1))
    assert prompts is not None
    spans = list(prompts)
    assert len(spans) == 100
    assert np.mean([total_tokens(one) for one in spans]) == pytest.approx(3000, rel=0.01)
    assert len({one[0] for one in spans}) == 4
    assert isinstance(experiment, Experiment)
