"""Results made here: other versions' keys, failed requests, missing and odd values, broken files."""

import gzip
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.measured.read import read_measured
from calibrate.measured.run import MeasuredRequest, MeasuredRun
from calibrate.measured.statistics import metrics_of
from sim.errors import MeasurementError

OLD_VLLM: dict[str, Any] = {  # keys of 2024: no `failed`, no latencies
    "date": "20240901", "backend": "vllm", "model_id": "m", "tokenizer_id": "m", "best_of": 1, "num_prompts": 4,
    "request_rate": "inf", "duration": 2.0, "completed": 3, "total_input_tokens": 300, "total_output_tokens": 6,
    "request_throughput": 1.5, "request_goodput:": None, "output_throughput": 3.0, "total_token_throughput": 153.0,
    "input_lens": [100, 100, 100, 100], "output_lens": [3, 0, 2, 1], "ttfts": [0.1, 0.0, 0.2, 0.3],
    "itls": [[0.01, 0.03], [], [0.05], []], "generated_texts": ["", "", "", ""], "errors": ["", "HTTP 500", "", ""],
    "mean_ttft_ms": 200.0, "median_ttft_ms": 200.0, "p99_ttft_ms": 298.0, "tp": "2",
}  # fmt: skip


def _read(tmp_path: Path, text: str | bytes, name: str = "r.json") -> list[MeasuredRun]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_measured([path])


def _one(tmp_path: Path, value: Any, name: str = "r.json") -> MeasuredRun:
    (run,) = _read(tmp_path, json.dumps(value), name)
    return run


def test_failed_requests_count_nowhere(tmp_path: Path) -> None:
    """A TTFT of 0 of a failed request is none; E2E is the sum where no latency is listed."""
    run = _one(tmp_path, OLD_VLLM)
    assert (run.completed, run.failed) == (3, 1)
    assert run.metrics["ttft_mean_s"] == pytest.approx(0.2)
    assert run.metrics["tpot_mean_s"] == pytest.approx((0.04 / 2 + 0.05) / 2)  # of those with two tokens
    assert run.metrics["itl_mean_s"] == pytest.approx(0.09 / 3)
    assert run.metrics["e2e_p50_s"] == pytest.approx(0.25)
    assert run.settings["tp"] == "2"


def test_failed_is_told_from_prompts_where_nothing_is_listed(tmp_path: Path) -> None:
    """Old plain results have no `failed`."""
    plain = {key: one for key, one in OLD_VLLM.items() if not isinstance(one, list)}
    assert _one(tmp_path, plain).failed == 1


def test_nothing_completed_leaves_no_metrics(tmp_path: Path) -> None:
    """The zeros of such a result are no latencies."""
    plain = {key: one for key, one in OLD_VLLM.items() if not isinstance(one, list)}
    run = _one(tmp_path, plain | {"completed": 0, "mean_ttft_ms": 0.0, "p99_ttft_ms": 0.0})
    assert not [key for key in run.metrics if key.startswith("ttft")]
    assert "no request completed" in run.notes[-1]


def test_requests_that_contradict_the_summary_are_noted(tmp_path: Path) -> None:
    """Arrays in milliseconds, say."""
    run = _one(tmp_path, OLD_VLLM | {"mean_ttft_ms": 0.2})
    assert "say otherwise" in run.notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output_lens": [1, 2]}, "different lengths"),
        ({"ttfts": [0.1, "x", 0.2, 0.3]}, r"ttfts\[1\] 'x' is not a number"),
        ({"itls": [[0.1], 3, [], []]}, r"itls\[1\] is not a list"),
        ({"completed": 3.5}, "completed 3.5 is not a whole number"),
        ({"completed": -1}, "completed -1 is negative"),
        ({"duration": True}, "duration True is not a number"),
        ({"duration": 1e12}, "is this the right unit"),
        ({"total_input_tokens": 1e308}, "more than any load test counts"),
        ({"ttfts": [1e300, 0.1, 0.2, 0.3]}, "more than 1e"),
        ({"mean_ttft_ms": [1]}, "mean_ttft_ms .* is not a number"),
    ],
)
def test_wrong_values_are_refused_by_key(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """File and key are named."""
    with pytest.raises(MeasurementError, match=message) as caught:
        _one(tmp_path, OLD_VLLM | change)
    assert str(tmp_path / "r.json") in str(caught.value)


def test_nan_and_missing_keys_read_as_not_stated(tmp_path: Path) -> None:
    """Some tools write NaN for none."""
    run = _one(tmp_path, {"model_id": "m", "request_throughput": math.nan, "mean_ttft_ms": math.nan})
    assert run.metrics == {}
    assert run.completed is None


def test_other_percentiles(tmp_path: Path) -> None:
    """`--metric-percentiles 25,75,95,99.9`: those of the table are kept."""
    stated = {"model_id": "m", "request_throughput": 1.0, "p25_ttft_ms": 1.0, "p95_ttft_ms": 3.0, "p99.9_ttft_ms": 9.0}
    run = _one(tmp_path, stated)
    assert {key: one for key, one in run.metrics.items() if "ttft" in key} == {"ttft_p95_s": pytest.approx(0.003)}


def test_pieces_of_several_tokens_are_noted(tmp_path: Path) -> None:
    """ITL is then between chunks."""
    run = _one(tmp_path, OLD_VLLM | {"output_lens": [9, 0, 2, 1]})
    assert any("between chunks" in note for note in run.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  \n\n", "empty"),
        ("{", "no JSON"),
        (json.dumps(OLD_VLLM)[:-20], "no JSON"),
        (json.dumps(OLD_VLLM) + "\n" + json.dumps(OLD_VLLM)[:-5], "line 2 is no JSON"),
        ("{" * 100_000, "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "empty list"),
        ("[1, 2]", "no result of a load test"),
        ("[\n1, 2]", "not an object"),
        ('{"a": 1}', "no result that is known"),
        ('{"elapsed_time": 1, "num_requests": 2}', "offline benchmark"),
        ("hello there", "no result of a load test"),
        (b"\x00\x01\x02{", "binary"),
        (b"\xff\xfe{\x00", "binary"),
        ('{"model_id": "\xff"', "no JSON"),
        ("vllm:num_requests_running{} x\n# TYPE a gauge\n", "no result"),
        ("# TYPE a gauge\nvllm:a{} x\n", "line 2 is no sample"),
        ("# TYPE a gauge\na 1\n", "without any metric of vLLM"),
        ('{"benchmarks": [1], "metadata": {}}', "something else than an object"),
        ('{"benchmarks": [{"metrics": 3}], "metadata": {}}', "is not an object"),
        ("Run Info,Run Info\nRun ID,\n", "no benchmark below"),
        ("Metric,avg\nTime to First Token (ms),abc\n", "is not a number"),
        ("Metric,avg\nOther (ms),1\n", "no metric of AIPerf"),
    ],
)
def test_broken_files_are_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    """Each says what is wrong, and where."""
    with pytest.raises(MeasurementError, match=message) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "r.json"))
    assert "\n" not in str(caught.value)


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    """Nobody writes into it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MeasurementError, match="no regular file"):
        read_measured([tmp_path / "pipe"])


def test_packed_files(tmp_path: Path) -> None:
    """Gzip is unpacked whatever the name."""
    (run,) = _read(tmp_path, gzip.compress(json.dumps(OLD_VLLM).encode()), "r.json.gz")
    assert run.completed == 3


def test_pretty_printed_results_after_one_another(tmp_path: Path) -> None:
    """Each begins on its own line."""
    text = json.dumps(OLD_VLLM, indent=1)
    runs = _read(tmp_path, f"{text}\n{text}")
    assert [run.place for run in runs] == ["line 1", f"line {text.count(chr(10)) + 2}"]


def test_mixed_folder(tmp_path: Path) -> None:
    """Results are read, other files named in a note, files beside results passed over."""
    (tmp_path / "a.json").write_text(json.dumps(OLD_VLLM))
    (tmp_path / "b.json").write_text('{"a": 1}')
    (tmp_path / "notes.md").write_text("x")
    (run,) = read_measured([tmp_path])
    assert "left out of this folder" in run.notes[-1]
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(MeasurementError, match=r"c\.json"):
        read_measured([tmp_path])


def test_empty_folder(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(MeasurementError, match="holds no result"):
        read_measured([tmp_path])


def test_sglang_trace_and_cache_report(tmp_path: Path) -> None:
    """Rate `trace`; hits of tokens."""
    line = {
        "request_rate": "trace", "max_concurrency": None, "duration": 2.0, "completed": 1, "total_throughput": 5.0,
        "request_throughput": 0.5, "mean_e2e_latency_ms": 4.0,
        "cache_report": {"total_prompt_tokens": 200, "total_cached_tokens": 50, "cache_hit_rate_pct": 25.0},
    }  # fmt: skip
    run = _one(tmp_path, line)
    assert run.load.rate_per_s is None
    assert run.metrics["prefix_hit_rate"] == 0.25
    assert any("times of a trace" in note for note in run.notes)


def test_shares_above_one_are_left_out(tmp_path: Path) -> None:
    """More cached than prompted is counted otherwise."""
    report = {"total_prompt_tokens": 10, "total_cached_tokens": 50}
    line = {"request_throughput": 0.5, "mean_e2e_latency_ms": 4.0, "completed": 1, "cache_report": report}
    run = _one(tmp_path, line)
    assert "prefix_hit_rate" not in run.metrics
    assert "prefix_hit_rate is left out" in run.notes[-1]


def test_vllm_multi_turn(tmp_path: Path) -> None:
    """Turns from messages of both roles; TPOT by our definition, not by chunks."""
    row = {
        "ttft_ms": 100.0, "tpot_ms": 5.0, "latency_ms": 500.0, "start_time_ms": 1000.0, "input_num_turns": 1,
        "input_num_tokens": 10, "output_num_tokens": 5, "output_num_chunks": 2, "output_num_first_chunk_tokens": 2,
        "approx_cached_percent": 90.0, "conversation_id": "c", "client_id": 0,
    }  # fmt: skip
    rows = [row, row | {"input_num_turns": 3, "start_time_ms": 1600.0, "client_id": 1, "ttft_ms": -1.0}]
    run = _one(tmp_path, rows)
    assert [one.turn for one in run.requests] == [0, 1]
    assert run.metrics["tpot_mean_s"] == pytest.approx(0.4 / 4)
    assert run.load.concurrency == 2
    assert run.duration_s == pytest.approx(1.1)
    assert "prefix_hit_rate" not in run.metrics


def test_agent_sim(tmp_path: Path) -> None:
    """Hits of tokens over its records."""
    records = [
        {"session": 0, "step": 0, "prompt": 100, "cached": 0, "ttft": 0.5, "wall": 1.0},
        {"session": 1, "step": 1, "prompt": 300, "cached": 200, "ttft": 0.1, "wall": 0.6},
    ]
    run = _one(tmp_path, {"summary": {"sessions": 2}, "records": records})
    assert run.metrics["prefix_hit_rate"] == 0.5
    assert run.metrics["ttft_p50_s"] == pytest.approx(0.3)
    assert run.load.concurrency == 2


def test_guidellm_summary_where_requests_are_sampled(tmp_path: Path) -> None:
    """Its order statistics are taken, with a note; errors are failures."""

    def spread(value: float, **other: float) -> dict[str, Any]:
        return {"successful": {"mean": value, "median": value, "count": 5, "total_sum": 5 * value, **other}}

    metrics = {
        "request_totals": {"successful": 5, "errored": 2, "incomplete": 1, "total": 8},
        "time_to_first_token_ms": spread(20.0)
        | {"successful": {"mean": 20.0, "count": 5, "percentiles": {"p99": 30.0}}},
        "inter_token_latency_ms": spread(10.0),
        "request_latency": spread(1.5),
        "time_per_output_token_ms": spread(99.0),
        "prompt_token_count": spread(100.0),
        "output_token_count": spread(10.0),
    }
    benchmark = {"config": {"strategy": {"type_": "poisson", "rate": 2.5}}, "metrics": metrics, "duration": 2.0}
    run = _one(tmp_path, {"metadata": {"version": 2}, "benchmarks": [benchmark]})
    assert (run.completed, run.failed) == (5, 2)
    assert (run.load.rate_per_s, run.load.burstiness) == (2.5, 1.0)
    assert run.metrics["ttft_p99_s"] == pytest.approx(0.03)
    assert run.metrics["tpot_mean_s"] == pytest.approx(0.01)
    assert run.metrics["output_tokens_per_s"] == pytest.approx(25.0)
    assert any("order statistics" in note for note in run.notes)
    assert any("1 requests were cut off" in note for note in run.notes)


def test_aiperf_units_warmup_and_errors(tmp_path: Path) -> None:
    """A metric says its unit; the warm-up is left out, errors and cancelled requests fail."""

    def row(at: int, phase: str = "profiling", **more: Any) -> dict[str, Any]:
        metadata = {"request_start_ns": at, "benchmark_phase": phase, "turn_index": 0, "x_correlation_id": "s"}
        metrics = {
            "time_to_first_token": {"value": 100_000, "unit": "us"},
            "request_latency": {"value": 1.0, "unit": "s"},
            "input_sequence_length": {"value": 10, "unit": "tokens"},
            "output_sequence_length": {"value": 10, "unit": "tokens"},
        }
        return {"metadata": metadata, "metrics": metrics} | more

    rows = [row(5, "warmup"), row(10**18), row(10**18 + 10**9), row(10**18 + 5, error={"code": 500}, metrics={})]
    (run,) = _read(tmp_path, "\n".join(map(json.dumps, rows)))
    assert (run.completed, run.failed) == (2, 1)
    assert run.metrics["ttft_mean_s"] == pytest.approx(0.1)
    assert run.metrics["tpot_mean_s"] == pytest.approx(0.1)
    assert run.duration_s == pytest.approx(2.0)
    assert any("warm-up" in note for note in run.notes)
    bad = row(1)
    bad["metrics"]["request_latency"]["unit"] = "fortnights"
    with pytest.raises(MeasurementError, match=r"line 1.*no unit of time"):
        _read(tmp_path, "\n".join(map(json.dumps, [bad, bad])))


@pytest.mark.parametrize("config", [{"perf_analyzer": {"stimulus": {"concurrency": 4}}}, {"concurrency": 4}])
def test_genai_perf_says_its_load_elsewhere(tmp_path: Path, config: dict[str, Any]) -> None:
    """The tool before AIPerf; without it nothing could be simulated but the rate that was served."""
    value = {"request_latency": {"unit": "ms", "avg": 900.0}, "time_to_first_token": {"unit": "ms", "avg": 90.0}}
    run = _one(tmp_path, value | {"input_config": config})
    assert run.load.concurrency == 4
    assert run.metrics["ttft_mean_s"] == pytest.approx(0.09)


def test_vllm_metadata_may_say_how_many_sessions(tmp_path: Path) -> None:
    """Fewer than requests: they are turns. Anything else is some metadata of the user's."""
    for said, talks in (("2", True), ("4", False), ("0", False), ("two", False), (2, False)):
        assert _one(tmp_path, OLD_VLLM | {"sessions": said}).load.sessions is talks


def test_aiperf_before_phases(tmp_path: Path) -> None:
    """Older exports state the load under `loadgen`."""
    value = {
        "request_latency": {"unit": "ms", "avg": 5.0},
        "request_count": {"unit": "requests", "avg": 7.0},
        "error_request_count": {"unit": "requests", "avg": 2.0},
        "input_config": {
            "endpoint": {"model_names": ["m"]},
            "loadgen": {"concurrency": 3, "request_rate": 2.0, "request_rate_mode": "constant"},
        },
    }
    run = _one(tmp_path, value)
    assert (run.model, run.load.concurrency, run.load.rate_per_s, run.failed) == ("m", 3, 2.0, 2)
    assert run.load.burstiness == math.inf


def test_inference_perf_whose_time_per_token_adds_up(tmp_path: Path) -> None:
    """It is kept then, with ITL."""
    latency = {
        "request_latency": {"mean": 1.0, "median": 1.0},
        "time_to_first_token": {"mean": 0.1},
        "time_per_output_token": {"mean": 0.1, "p99": 0.2},
        "inter_token_latency": {"mean": 0.1},
    }
    value = {"load_summary": {"count": 4}, "successes": {"count": 4, "latency": latency, "output_len": {"mean": 10.0}}}
    run = _one(tmp_path, value)
    assert run.metrics["tpot_p99_s"] == 0.2
    assert run.notes == ()


def test_inference_perf_folder_with_server_metrics_that_are_no_artefacts(tmp_path: Path) -> None:
    """Per cent of hits, a total of preemptions, queueing; stages in the order of their numbers."""
    for number in (2, 10):
        stage = {"load_summary": {"count": number, "concurrency": 3}, "successes": {"count": number}}
        (tmp_path / f"stage_{number}_lifecycle_metrics.json").write_text(json.dumps(stage))
    told = {
        "queue_len": {"mean": 0},
        "kv_cache_usage_percentage": {"mean": 0.2, "p99": 0.5},
        "prefix_cache_hit_percent": {"mean": 0.5},
        "num_preemptions_total": {"mean": 7},
        "request_queue_time": {"mean": 0.25},
    }
    (tmp_path / "stage_2_prometheus_metrics.json").write_text(json.dumps({"load_summary": {}, "successes": told}))
    first, second = read_measured([tmp_path])
    assert (first.load.requests, second.load.requests) == (2, 10)
    assert first.load.concurrency == 3
    assert {key: first.metrics[key] for key in ("kv_usage_peak", "prefix_hit_rate", "preemptions", "queue_mean_s")} == {
        "kv_usage_peak": 0.5,
        "prefix_hit_rate": 0.005,
        "preemptions": 7,
        "queue_mean_s": 0.25,
    }
    assert "kv_usage_peak" not in second.metrics


@given(
    st.lists(
        st.tuples(
            st.integers(1, 50), st.floats(0, 10), st.lists(st.floats(0, 1), min_size=1, max_size=5), st.booleans()
        ),
        min_size=1,
        max_size=30,
    )
)
def test_metrics_are_numpys(rows: list[tuple[int, float, list[float], bool]]) -> None:
    """One definition: linear percentiles over what did not fail."""
    requests = [
        MeasuredRequest(10, tokens, ttft_s=first, e2e_s=first + sum(gaps), itls_s=gaps, failed=failed)
        for tokens, first, gaps, failed in rows
    ]
    found = metrics_of(requests)
    good = [row for row in rows if not row[3]]
    if not good:
        assert found == {}
        return
    assert found["ttft_p95_s"] == pytest.approx(np.percentile([row[1] for row in good], 95))
    assert found["itl_p99_s"] == pytest.approx(np.percentile([gap for row in good for gap in row[2]], 99))
    tpots = [sum(row[2]) / (row[0] - 1) for row in good if row[0] > 1]
    if tpots:
        assert found["tpot_mean_s"] == pytest.approx(np.mean(tpots), abs=1e-9)
    else:
        assert "tpot_mean_s" not in found


@pytest.mark.parametrize("key", ["duration", "mean_ttft_ms", "completed", "ttfts", "itls", "start_times", "input_lens"])
def test_numbers_larger_than_any_float_are_refused(tmp_path: Path, key: str) -> None:
    """JSON has whole numbers of any length."""
    huge: Any = 10**400
    value = {"ttfts": [huge] * 4, "itls": [[huge]] * 4, "start_times": [huge] * 4, "input_lens": [huge] * 4}.get(
        key, huge
    )
    with pytest.raises(MeasurementError, match=key):
        _one(tmp_path, {**OLD_VLLM, key: value})
    with pytest.raises(MeasurementError):
        _read(tmp_path, json.dumps({**OLD_VLLM, "duration": "HUGE"}).replace('"HUGE"', "9" * 5000))
