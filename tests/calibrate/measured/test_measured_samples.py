"""Samples of real tools: each is read or refused with a reason, and its values are those read here independently."""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrate.measured.read import read_measured
from sim.errors import MeasurementError

RESULTS = Path(__file__).resolve().parents[4] / "shared" / "data" / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the shared samples are not here")
REFUSED = {
    "config.yaml": "no result",
    "manifests.yaml": "no result",
    "README.md": "no result",
    "server_metrics_export.csv": "no result",
    "server_metrics_export.json": "without a load",
    "stage_0_prometheus_metrics.json": "without a load",
    "conversation_lines_00001-02500.llama-3.1-8b.json": "cache simulator",
}
VLLM, SGLANG = RESULTS / "vllm_bench_serve", RESULTS / "sglang_bench_serving"
GUIDELLM, AIPERF = RESULTS / "guidellm", RESULTS / "aiperf" / "aiperf_0.13.0_mock_multiturn"
STAGES = RESULTS / "inference_perf" / "h100_llama3.1-8b_vllm_chunking_and_prefix_caching"


def test_every_sample_is_read_or_refused_with_a_reason() -> None:
    """A load point has metrics; a refusal names the file."""
    read, refused = 0, {}
    for path in sorted(path for path in RESULTS.rglob("*") if path.is_file()):
        try:
            runs = read_measured([path])
        except MeasurementError as error:
            refused[path] = str(error)
            continue
        assert runs
        assert all(run.metrics and run.completed for run in runs), path
        read += len(runs)
    assert read == 27
    assert all(said.startswith(str(path)) for path, said in refused.items())
    assert len(refused) == 15


@pytest.mark.parametrize(("name", "why"), REFUSED.items())
def test_what_is_no_load_test_is_refused(name: str, why: str) -> None:
    """The message says what it is."""
    (path,) = RESULTS.rglob(name)
    with pytest.raises(MeasurementError, match=why):
        read_measured([path])


def test_vllm_statistics_become_seconds() -> None:
    """Appended lines: four concurrencies."""
    runs = read_measured([VLLM / "vllm_bench_serve_append_concurrency_sweep.json"])
    assert [run.load.concurrency for run in runs] == [1, 2, 4, 8]
    assert [run.place for run in runs] == ["line 1", "line 2", "line 3", "line 4"]
    assert runs[0].metrics["ttft_p99_s"] == pytest.approx(0.04211548511987074)
    assert runs[0].metrics["e2e_mean_s"] == pytest.approx(0.23740085245837386)
    assert runs[0].load.rate_per_s == float("inf")
    assert runs[0].input_tokens_mean == pytest.approx(12290 / 24)


def test_vllm_requests_give_what_its_own_summary_says() -> None:
    """Every statistic of the file, from its arrays."""
    path = VLLM / "vllm_bench_serve_detailed.json"
    (run,) = read_measured([path])
    stated = json.loads(path.read_text())
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    for metric, name in names.items():
        for statistic in ("mean", "std", "p50", "p90", "p99"):
            assert run.metrics[f"{metric}_{statistic}_s"] * 1e3 == pytest.approx(stated[f"{statistic}_{name}_ms"])
    assert len(run.requests) == 40
    assert run.notes == ()
    assert run.settings["engine"] == "mock"
    assert run.metrics["requests_per_s"] == pytest.approx(40 / stated["duration"])


def test_vllm_latencies_of_a_plain_result_give_e2e() -> None:
    """It states no E2E statistic, but lists latencies."""
    path = VLLM / "vllm_bench_serve_summary.json"
    (run,) = read_measured([path])
    latencies = json.loads(path.read_text())["latencies"]
    assert run.metrics["e2e_p90_s"] == pytest.approx(float(np.percentile(latencies, 90)))
    assert run.load.rate_per_s == 10.0
    assert run.load.concurrency is None


def test_sglang_lines() -> None:
    """Infinity is a rate; E2E carries a note where it cannot be recomputed."""
    runs = read_measured([SGLANG / "sglang_bench_serving_concurrency_sweep.jsonl"])
    assert [run.load.concurrency for run in runs] == [2, 4, 8]
    assert runs[0].load.rate_per_s == float("inf")
    assert runs[0].metrics["e2e_p99_s"] == pytest.approx(0.35749201083)
    assert "end of the stream" in runs[0].notes[0]
    assert runs[0].model == "mock-model"


def test_sglang_details_end_with_the_last_token() -> None:
    """TTFT and ITL are those stated, E2E is the sum of what is listed."""
    path = SGLANG / "sglang_bench_serving_details.jsonl"
    (run,) = read_measured([path])
    stated = json.loads(path.read_text())
    for statistic in ("mean", "std", "p90", "p95", "p99"):
        for metric in ("ttft", "itl"):
            assert run.metrics[f"{metric}_{statistic}_s"] * 1e3 == pytest.approx(stated[f"{statistic}_{metric}_ms"])
    ends = [first + sum(gaps) for first, gaps in zip(stated["ttfts"], stated["itls"], strict=True)]
    assert run.metrics["e2e_mean_s"] == pytest.approx(statistics.fmean(ends))


@pytest.mark.parametrize("path", [*GUIDELLM.glob("*.json")], ids=lambda path: path.name[:14])
def test_guidellm_requests(path: Path) -> None:
    """TPOT is the inter-token latency, never its time per output token; rates are totals over the duration."""
    runs = read_measured([path])
    report = json.loads(path.read_text())
    for run, benchmark in zip(runs, report["benchmarks"], strict=True):
        metrics = benchmark["metrics"]
        own = {name: metrics[name]["successful"]["mean"] for name in metrics if name.endswith("_ms")}
        assert run.metrics["ttft_mean_s"] * 1e3 == pytest.approx(own["time_to_first_token_ms"])
        assert run.metrics["tpot_mean_s"] * 1e3 == pytest.approx(own["inter_token_latency_ms"])
        assert run.metrics["tpot_mean_s"] * 1e3 < own["time_per_output_token_ms"]
        assert run.metrics["e2e_mean_s"] == pytest.approx(metrics["request_latency"]["successful"]["mean"], rel=0.05)
        assert run.metrics["requests_per_s"] == pytest.approx(run.completed / benchmark["duration"], rel=1e-6)  # type: ignore[operator]
        assert "ITL" not in " ".join(run.notes)
        assert "itl_p99_s" not in run.metrics
    assert {run.load.concurrency for run in runs} <= {2, 4, 6}


def test_guidellm_csv_agrees_with_the_json() -> None:
    """Load, counts, means and rates; percentiles are its order statistics."""
    csv = read_measured([GUIDELLM / "guidellm_0.8.1_schema2_mock_concurrent.csv"])
    full = read_measured([GUIDELLM / "guidellm_0.8.1_schema2_mock_concurrent.json"])
    for one, other in zip(csv, full, strict=True):
        assert one.load.concurrency == other.load.concurrency
        assert one.completed == other.completed
        for key in ("ttft_mean_s", "ttft_std_s", "tpot_mean_s", "output_tokens_per_s"):
            assert one.metrics[key] == pytest.approx(other.metrics[key])
        stated = json.loads((GUIDELLM / "guidellm_0.8.1_schema2_mock_concurrent.json").read_text())
    p99 = stated["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["percentiles"]["p99"]
    assert csv[0].metrics["ttft_p99_s"] * 1e3 == pytest.approx(p99)


def test_guidellm_hits() -> None:
    """Cached tokens over prompt tokens."""
    path = GUIDELLM / "guidellm_0.8.1_schema2_mock_concurrent.json"
    rows = json.loads(path.read_text())["benchmarks"][0]["requests"]["successful"]
    expected = sum(row["cached_tokens"] for row in rows) / sum(row["prompt_tokens"] for row in rows)
    assert read_measured([path])[0].metrics["prefix_hit_rate"] == pytest.approx(expected)


def _aiperf_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (AIPERF / "profile_export.jsonl").read_text().splitlines()]


def test_aiperf_folder_is_one_run() -> None:
    """Load from the summary, sessions and turns from the requests, statistics those of the summary."""
    (run,) = read_measured([AIPERF])
    stated = json.loads((AIPERF / "profile_export_aiperf.json").read_text())
    assert run.file == AIPERF
    assert (run.load.concurrency, run.load.sessions) == (4, True)
    names = {
        "ttft": "time_to_first_token",
        "tpot": "inter_token_latency",
        "itl": "inter_chunk_latency",
        "e2e": "request_latency",
    }
    for metric, name in names.items():
        for ours, theirs in {"mean": "avg", "std": "std", "p50": "p50", "p99": "p99"}.items():
            assert run.metrics[f"{metric}_{ours}_s"] * 1e3 == pytest.approx(stated[name][theirs])
    assert run.metrics["prefix_hit_rate"] == pytest.approx(4912 / 10488)
    assert not [note for note in run.notes if "otherwise" in note]
    rows = _aiperf_rows()
    assert len({one.session for one in run.requests}) == len({row["metadata"]["x_correlation_id"] for row in rows})
    assert sorted({one.turn for one in run.requests if one.turn is not None}) == [0, 1, 2]
    assert sum(one.prompt_tokens for one in run.requests) == 10488


def test_aiperf_csv_is_the_json_rounded() -> None:
    """Two decimals of a millisecond."""
    (csv,) = read_measured([AIPERF / "profile_export_aiperf.csv"])
    (full,) = read_measured([AIPERF / "profile_export_aiperf.json"])
    for key, value in csv.metrics.items():
        tolerance = 6e-6 if key.endswith("_s") and not key.endswith("per_s") else 6e-3
        assert value == pytest.approx(full.metrics[key], abs=tolerance), key


def test_inference_perf_stages_with_what_the_server_said() -> None:
    """Seconds stay seconds; time per token adds up; zeros of renamed metrics are left out."""
    runs = read_measured([STAGES])
    assert [run.load.requests for run in runs] == [60, 2595, 5130, 7665, 10199, 12734, 15269]
    for number, run in enumerate(runs):
        stated = json.loads((STAGES / f"stage_{number}_lifecycle_metrics.json").read_text())
        latency = stated["successes"]["latency"]
        assert run.metrics["ttft_p99_s"] == latency["time_to_first_token"]["p99"]
        assert run.metrics["e2e_p50_s"] == latency["request_latency"]["median"]
        decode_s = latency["request_latency"]["mean"] - latency["time_to_first_token"]["mean"]
        assert run.metrics["tpot_mean_s"] == pytest.approx(decode_s / (stated["successes"]["output_len"]["mean"] - 1))
        assert not {"tpot_p99_s", "itl_mean_s", "kv_usage_peak", "prefix_hit_rate"} & set(run.metrics)
        assert (run.load.concurrency, run.load.burstiness) == (440, float("inf"))
        late = stated["load_summary"]["schedule_delay"]["p99"] > 0.1
        assert any("sent late" in note for note in run.notes) == late


def test_prometheus_scrape() -> None:
    """Means of the histograms are exact, shares are of tokens, percentiles are only ranges."""
    (run,) = read_measured([RESULTS / "prometheus" / "vllm_0.33.0_metrics.prom"])
    assert run.completed == 200
    assert run.metrics["prefix_hit_rate"] == pytest.approx(2385552 / 3425994)
    assert run.metrics["kv_usage_peak"] == 0.63
    assert run.metrics["preemptions"] == 3
    assert run.input_tokens_mean == pytest.approx(3425994 / 200)
    assert dict(run.buckets["ttft"])[0.25] == 66
    assert not [key for key in run.metrics if key.endswith(("_p50_s", "_p99_s"))]
    assert any("ttft p50 0.25 to 0.5 s" in note for note in run.notes)


@pytest.mark.parametrize(
    "path", [GUIDELLM / "guidellm_0.8.1_schema2_mock_concurrent.csv", AIPERF / "profile_export_aiperf.csv"]
)
def test_a_table_cut_short_is_refused(tmp_path: Path, path: Path) -> None:
    """Half a row is no load point."""
    text = path.read_text()
    cut = tmp_path / path.name
    cut.write_text(text[: len(text) * 2 // 3])
    with pytest.raises(MeasurementError, match=r"cells, where \d+ are expected|is not a|unexpected end"):
        read_measured([cut])
