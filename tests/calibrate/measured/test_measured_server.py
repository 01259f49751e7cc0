"""What a server says of itself: scrapes of old and new vLLM, and its log."""

import math
from pathlib import Path

import pytest

from calibrate.measured.prometheus_text import range_of
from calibrate.measured.read import read_measured
from sim.errors import MeasurementError

NEW = """# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
vllm:num_requests_running{{engine="1",model_name="m"}} 2.0
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.5
vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {queries}
vllm:prefix_cache_queries_created{{engine="0",model_name="m"}} 1.7e+09
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {hits}
vllm:num_preemptions_total{{engine="0",model_name="m"}} 1.0
vllm:request_success_total{{finished_reason="stop",model_name="m"}} {done}
vllm:request_success_total{{finished_reason="abort",model_name="m"}} 1.0
vllm:time_to_first_token_seconds_bucket{{le="0.5",model_name="m"}} {half}
vllm:time_to_first_token_seconds_bucket{{le="+Inf",model_name="m"}} {done}
vllm:time_to_first_token_seconds_count{{model_name="m"}} {done}
vllm:time_to_first_token_seconds_sum{{model_name="m"}} {seconds}
"""
V0 = """# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:gpu_prefix_cache_hit_rate{model_name="m"} 0.4
vllm:cpu_cache_usage_perc{model_name="m"} 0.9
vllm:num_requests_swapped{model_name="m"} 0.0
vllm:time_per_output_token_seconds_count{model_name="m"} 10.0
vllm:time_per_output_token_seconds_sum{model_name="m"} 0.5
"""
LINE = (
    "(APIServer pid=7) INFO 11-29 16:31:{second:02d} [loggers.py:127] Engine 000: Avg prompt throughput: {prompt} "
    "tokens/s, Avg generation throughput: {output} tokens/s, Running: {running} reqs, Waiting: 3 reqs, "
    "GPU KV cache usage: {usage}%, Prefix cache hit rate: 40.0%"
)


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_two_scrapes_are_subtracted(tmp_path: Path) -> None:
    """Counters and histograms are of the time between; gauges the most of both."""
    before = NEW.format(running=4.0, queries=100.0, hits=10.0, done=4.0, half=4.0, seconds=1.0)
    after = NEW.format(running=3.0, queries=300.0, hits=110.0, done=14.0, half=9.0, seconds=8.0)
    paths = [_write(tmp_path, "a.prom", before), _write(tmp_path, "b.prom", after)]
    (run,) = read_measured(paths)
    assert (run.completed, run.failed) == (10, 0)
    assert run.metrics["prefix_hit_rate"] == pytest.approx(0.5)
    assert run.metrics["ttft_mean_s"] == pytest.approx(0.7)
    assert run.metrics["running_peak"] == 6.0
    assert run.metrics["preemptions"] == 0.0
    assert run.buckets["ttft"] == ((0.5, 5.0), (math.inf, 10.0))
    assert run.place == "since a.prom"
    assert read_measured([tmp_path])[0].completed == 10
    with pytest.raises(MeasurementError, match=r"a\.prom: .*wrong order"):
        read_measured(paths[::-1])


def test_names_of_v0(tmp_path: Path) -> None:
    """Usage and hits are gauges there; swapping is not."""
    (run,) = read_measured([_write(tmp_path, "v0.prom", V0)])
    assert run.metrics["kv_usage_peak"] == 0.25
    assert run.metrics["prefix_hit_rate"] == 0.4
    assert run.metrics["itl_mean_s"] == pytest.approx(0.05)


def test_names_between(tmp_path: Path) -> None:
    """V1 before the renaming: `gpu_prefix_cache_*` counters."""
    text = "# TYPE x counter\nvllm:gpu_prefix_cache_queries_total 8.0\nvllm:gpu_prefix_cache_hits_total 2.0\n"
    (run,) = read_measured([_write(tmp_path, "old.prom", text)])
    assert run.metrics["prefix_hit_rate"] == 0.25


def test_a_quantile_of_buckets_is_a_range() -> None:
    """The bucket that holds it, open at the end."""
    buckets = ((0.5, 5.0), (1.0, 9.0), (math.inf, 10.0))
    assert range_of(buckets, 0.5) == (0.0, 0.5)
    assert range_of(buckets, 0.9) == (0.5, 1.0)
    assert range_of(buckets, 0.99) == (1.0, math.inf)
    assert range_of((), 0.5) is None
    assert range_of(((1.0, 0.0),), 0.5) is None


def test_engine_lines(tmp_path: Path) -> None:
    """Peaks over all, rates over lines with traffic; times from the first."""
    lines = [
        LINE.format(second=0, prompt=0.0, output=0.0, running=0, usage=0.0).replace("Waiting: 3", "Waiting: 0"),
        LINE.format(second=10, prompt=100.0, output=50.0, running=4, usage=80.5),
        LINE.format(second=20, prompt=300.0, output=150.0, running=2, usage=20.0),
    ]
    (run,) = read_measured([_write(tmp_path, "server.log", "some line\n" + "\n".join(lines) + "\n")])
    assert run.metrics["kv_usage_peak"] == pytest.approx(0.805)
    assert run.metrics["output_tokens_per_s"] == pytest.approx(100.0)
    assert run.metrics["running_peak"] == 4.0
    assert run.metrics["prefix_hit_rate"] == pytest.approx(0.4)
    assert [one.at_s for one in run.series] == [0.0, 10.0, 20.0]
    assert run.series[1].waiting == 3


def test_engine_lines_of_v0_and_with_preemptions(tmp_path: Path) -> None:
    """`Pending`, `Swapped`, CPU usage; newer lines count preemptions since the last."""
    old = (
        "INFO 01-02 03:04:05 metrics.py:345] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: "
        "5.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 2 reqs, GPU KV cache usage: 1.5%, "
        "CPU KV cache usage: 0.0%."
    )
    new = LINE.format(second=9, prompt=1.0, output=1.0, running=1, usage=1.0).replace(
        "GPU KV", "Preemptions: 7, GPU KV"
    )
    (run,) = read_measured([_write(tmp_path, "v0.log", f"{old}\n{new}\n")])
    assert run.series[0].waiting == 2
    assert run.series[0].hit_rate is None
    assert run.metrics["preemptions"] == 7.0


def test_a_cut_line_is_named(tmp_path: Path) -> None:
    """Line and its end."""
    line = LINE.format(second=0, prompt=1.0, output=1.0, running=1, usage=1.0)
    with pytest.raises(MeasurementError, match="line 2 is cut"):
        read_measured([_write(tmp_path, "cut.log", f"{line}\n{line[:110]}")])


def test_a_start_without_traffic(tmp_path: Path) -> None:
    """Its facts are settings."""
    text = (
        "INFO 11-29 16:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"
        "INFO 11-29 16:00:09 [kv_cache_utils.py:1] GPU KV cache size: 100,000 tokens\n"
    )
    (run,) = read_measured([_write(tmp_path, "start.log", text)])
    assert run.settings["kv_tokens"] == "100000"
    assert run.metrics == {}
    assert run.notes[-1] == "a start without traffic"


@pytest.mark.parametrize("value", ["-5", "NaN", "+Inf", "1e400"])
def test_a_counter_that_counts_nothing_is_refused(tmp_path: Path, value: str) -> None:
    """One scrape alone has nothing to fall below."""
    text = NEW.format(running=4.0, queries=100.0, hits=10.0, done=4.0, half=value, seconds=1.0)
    with pytest.raises(MeasurementError, match=r"time_to_first_token_seconds_bucket .* is no count"):
        read_measured([_write(tmp_path, "a.prom", text)])


def test_a_gauge_of_nothing_is_left_out(tmp_path: Path) -> None:
    """Prometheus writes NaN for none."""
    (run,) = read_measured([_write(tmp_path, "a.prom", V0.replace("0.25", "NaN").replace(" 0.4", " +Inf"))])
    assert "kv_usage_peak" not in run.metrics
    assert "prefix_hit_rate" not in run.metrics
