"""`kvcliff run --export FORMAT:FILE`: files of real tools with the run's own numbers, whole or absent."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import kvcliff

from sim.export.facts import EPOCH_S
from sim.export.vllm_families import FAMILIES

RESULTS = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "results"
needs_samples = pytest.mark.skipif(not RESULTS.is_dir(), reason="shared/data/results is not beside the checkout")


@pytest.fixture
def exported(small: Path, tmp_path: Path) -> Callable[..., tuple[list[dict[str, Any]], Path]]:
    """Return a function that exports the small scenario, and gives the printed points and the folder."""

    def exported(*flags: str) -> tuple[list[dict[str, Any]], Path]:
        folder = tmp_path / "exported"
        asked = [part for flag in flags for part in ("--export", flag.format(folder, level="{level}"))]
        result = kvcliff("run", small, "--seeds", "1", "--quick", "--json", *asked)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["points"], folder

    return exported


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_bench_lines_say_what_the_table_says(exported: Callable[..., Any]) -> None:
    """A line a level, in ascending order; statistics in ms where ours are seconds."""
    points, folder = exported("vllm-bench:{}/bench.jsonl")
    lines = lines_of(folder / "bench.jsonl")
    assert [line["max_concurrency"] for line in lines] == [1, 2]
    for point, line in zip(points, lines, strict=True):
        assert (line["request_rate"], line["completed"], line["failed"]) == ("inf", point["requests"], 0)
        for ours, theirs in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el")):
            for share in (50, 99):
                assert line[f"p{share}_{theirs}_ms"] == pytest.approx(1000 * point[f"{ours}_p{share}_s"], rel=1e-9)
            assert line[f"median_{theirs}_ms"] == line[f"p50_{theirs}_ms"]
        assert line["request_throughput"] == pytest.approx(point["requests_per_s"])
        assert line["output_throughput"] == pytest.approx(point["output_tokens_per_s"])
        assert line["request_goodput"] == pytest.approx(point["goodput_requests_per_s"])
        assert line["simulated_by"].startswith("kvcliff ")


@needs_samples
@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("vllm-bench", "vllm_bench_serve_append_concurrency_sweep"),
        ("vllm-bench-detailed", "vllm_bench_serve_detailed"),
    ],
)
def test_bench_keys_are_the_tools_in_its_order(exported: Callable[..., Any], name: str, sample: str) -> None:
    """Its metadata apart, and ours; percentiles are a choice of whoever runs it."""
    _, folder = exported(name + ":{}/bench.jsonl")
    with (RESULTS / "vllm_bench_serve" / f"{sample}.json").open(encoding="utf-8") as file:
        theirs = json.loads(file.readline())
    theirs.pop("engine", None)  # metadata of the sample
    line = lines_of(folder / "bench.jsonl")[0]
    assert [key for key in line if key in theirs] == list(theirs)
    more = {key for key in line if key not in theirs and not key.startswith(("p90_", "p95_"))}
    assert more == {"simulated_by", "scenario", "profile", "load", "seed", "unfinished", "sessions"}
    for key, value in theirs.items():
        if value is not None and line[key] is not None and not isinstance(value, int | float):
            assert type(line[key]) is type(value), key


def test_detailed_arrays_hold_every_token(exported: Callable[..., Any]) -> None:
    """TTFT and the gaps of a request make its latency."""
    _, folder = exported("vllm-bench-detailed:{}/bench.jsonl")
    for line in lines_of(folder / "bench.jsonl"):
        requests = zip(line["ttfts"], line["itls"], line["latencies"], line["output_lens"], strict=True)
        for ttft, itls, latency, tokens in requests:
            assert len(itls) == tokens - 1
            assert ttft + sum(itls) == pytest.approx(latency)
        assert sum(line["input_lens"]) == line["total_input_tokens"]
        assert line["start_times"] == sorted(line["start_times"])


def test_requests_are_told_by_session_and_turn(exported: Callable[..., Any]) -> None:
    """Turns of a session follow each other on a clock since 1970; what was found cached is told."""
    points, folder = exported("aiperf:{}/{level}/profile_export.jsonl")
    for point in points:
        lines = lines_of(folder / f"{point['sessions']}" / "profile_export.jsonl")
        assert len(lines) == point["requests"]
        hits = sum(line["metrics"]["usage_prompt_cache_read_tokens"]["value"] for line in lines)
        prompts = sum(line["metrics"]["usage_prompt_tokens"]["value"] for line in lines)
        assert hits / prompts == pytest.approx(point["prefix_hit_rate"])
        for first, second in pairwise(line["metadata"] for line in lines):
            assert first["request_end_ns"] <= second["request_end_ns"]
            if first["conversation_id"] == second["conversation_id"]:
                assert second["turn_index"] == first["turn_index"] + 1
                assert first["x_correlation_id"] == second["x_correlation_id"]
                assert second["request_start_ns"] >= first["request_end_ns"]
        assert min(line["metadata"]["request_start_ns"] for line in lines) >= EPOCH_S * 10**9
        one = lines[0]
        took_ms = (one["metadata"]["request_end_ns"] - one["metadata"]["request_start_ns"]) / 1e6
        assert one["metrics"]["request_latency"]["value"] == pytest.approx(took_ms, abs=1e-5)


@needs_samples
def test_request_metrics_have_the_tools_names_and_units(exported: Callable[..., Any]) -> None:
    """None is made up."""
    _, folder = exported("aiperf:{}/{level}.jsonl")
    sample = RESULTS / "aiperf" / "aiperf_0.13.0_mock_multiturn" / "profile_export.jsonl"
    with sample.open(encoding="utf-8") as file:
        theirs = json.loads(file.readline())
    (ours, *_) = lines_of(folder / "1.jsonl")
    assert set(ours["metadata"]) <= set(theirs["metadata"])
    for name, metric in ours["metrics"].items():
        assert theirs["metrics"][name]["unit"] == metric["unit"], name


def families_of(text: str) -> dict[str, tuple[str, str]]:
    """Return type and help of each family."""
    helps = dict(line.split(" ", 3)[2:] for line in text.splitlines() if line.startswith("# HELP"))
    kinds = dict(line.split(" ", 3)[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    return {name: (kinds[name], text) for name, text in helps.items()}


def series_of(text: str) -> dict[str, float]:
    """Return each series' value by its name and labels as written."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


@needs_samples
def test_a_page_has_the_servers_families(exported: Callable[..., Any]) -> None:
    """Names, types, help texts, labels and buckets are vLLM's; only what nobody simulates is left out."""
    _, folder = exported("prometheus:{}/{level}.prom")
    ours = (folder / "2.prom").read_text(encoding="utf-8")
    theirs = (RESULTS / "prometheus" / "vllm_0.33.0_metrics.prom").read_text(encoding="utf-8")
    mine, real = families_of(ours), families_of(theirs)
    assert [name for name in real if name in mine] == list(mine)
    assert {name: real[name] for name in mine} == mine
    left = {name for name in real if name not in mine and name.startswith("vllm:") and not name.endswith("_created")}
    unknown = ("vllm:estimated_", "vllm:kv_block_", "vllm:iteration_tokens_total")
    assert [name for name in left if not name.startswith(unknown)] == []
    short = {
        name.replace("Qwen/Qwen3-4B", "example-model") for name in series_of(ours) if "cache_config_info" not in name
    }
    missing = short - set(series_of(theirs))
    assert missing == set(), "series that the server does not have"


def test_a_page_counts_what_the_run_did(exported: Callable[..., Any]) -> None:
    """Counters are tokens and requests; a histogram's last bucket holds all."""
    points, folder = exported("prometheus:{}/{level}.prom")
    for point in points:
        series = series_of((folder / f"{point['sessions']}.prom").read_text(encoding="utf-8"))
        labels = '{engine="0",model_name="Qwen/Qwen3-4B"}'
        hit, asked = (series[f"vllm:prefix_cache_{name}_total{labels}"] for name in ("hits", "queries"))
        assert hit / asked == pytest.approx(point["prefix_hit_rate"])
        assert series[f"vllm:generation_tokens_total{labels}"] == 5 * point["requests"]
        assert series[f"vllm:num_requests_running{labels}"] == 0
        for family in FAMILIES:
            if family.kind == "histogram":
                buckets = [value for name, value in series.items() if name.startswith(f"vllm:{family.name}_bucket")]
                assert buckets == sorted(buckets)
                assert buckets[-1] == series[f"vllm:{family.name}_count{labels}"]
        assert series[f"vllm:time_to_first_token_seconds_count{labels}"] == point["requests"]
        assert series[f"vllm:inter_token_latency_seconds_count{labels}"] == 4 * point["requests"]


def test_the_reference_parser_reads_a_page(exported: Callable[..., Any]) -> None:
    """That of Prometheus' own client: families, types, and no sample without one."""
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    _, folder = exported("prometheus:{}/{level}.prom")
    found = list(parser.text_string_to_metric_families((folder / "1.prom").read_text(encoding="utf-8")))
    assert [family.type for family in found if family.type == "unknown"] == []
    assert [family.name for family in found] == [f"vllm:{family.name.removesuffix('_total')}" for family in FAMILIES]


def test_a_run_that_is_cut_off_tells_what_is_under_way(small: Path, tmp_path: Path) -> None:
    """As gauges of the page, and as metadata of the line; nobody's latency."""
    cut = ("--set", "stop={duration_s: 1.2}", "--points", "2", "--seeds", "1", "--quick", "--json")
    files = [tmp_path / "page.prom", tmp_path / "bench.jsonl"]
    flags = ["--export", f"prometheus:{files[0]}", "--export", f"vllm-bench:{files[1]}"]
    result = kvcliff("run", small, *cut, *flags)
    (point,) = json.loads(result.stdout)["points"]
    (line,) = lines_of(files[1])
    series = series_of(files[0].read_text(encoding="utf-8"))
    under_way = sum(series[f'vllm:num_requests_{name}{{engine="0",model_name="Qwen/Qwen3-4B"}}'] for name in RUNNING)
    assert point["unfinished"] > 0
    assert line["unfinished"] == f"{point['unfinished']:.0f}"
    assert under_way <= point["unfinished"]
    assert line["num_prompts"] == point["requests"] == len(line["latencies"])


RUNNING = ("running", "waiting")


def test_refused_turns_are_failures(small: Path, tmp_path: Path) -> None:
    """The second turn is longer than the context: an error of the client's, and no latency of anything."""
    names = {"vllm-bench-detailed": "b", "aiperf": "a", "prometheus": "p"}
    flags = [part for form, name in names.items() for part in ("--export", f"{form}:{tmp_path / name}")]
    short = ("--set", "engine.max_model_len=700", "--points", "2", "--seeds", "1", "--quick", "--json")
    result = kvcliff("run", small, *short, *flags)
    assert result.exit_code == 0, result.output
    (point,) = json.loads(result.stdout)["points"]
    (line,) = lines_of(tmp_path / "b")
    assert (line["num_prompts"], line["completed"], line["failed"]) == (4, point["requests"], point["refused"])
    assert [bool(error) for error in line["errors"]] == [length == 0 for length in line["output_lens"]]
    assert line["p99_ttft_ms"] == pytest.approx(1000 * point["ttft_p99_s"])
    errors = [one["error"]["code"] for one in lines_of(tmp_path / "a") if "error" in one]
    assert errors == [400] * int(point["refused"])
    series = series_of((tmp_path / "p").read_text(encoding="utf-8"))
    assert sum(value for name, value in series.items() if "request_success_total" in name) == point["requests"]


def test_a_run_without_answers_is_written_too(small: Path, tmp_path: Path) -> None:
    """All zero, as the tools write; JSON without NaN."""
    names = {"vllm-bench": "b", "aiperf": "a", "prometheus": "p"}
    flags = [part for form, name in names.items() for part in ("--export", f"{form}:{tmp_path / name}")]
    none = ("--set", "engine.max_model_len=600", "--points", "1", "--seeds", "1", "--quick", "--json")
    result = kvcliff("run", small, *none, *flags)
    assert result.exit_code == 0, result.output
    (line,) = lines_of(tmp_path / "b")
    assert (line["completed"], line["failed"], line["p99_ttft_ms"], line["request_throughput"]) == (0, 1, 0.0, 0.0)
    assert len(lines_of(tmp_path / "a")) == 1
    assert "NaN" not in (tmp_path / "b").read_text(encoding="utf-8")
    assert "nan" not in (tmp_path / "p").read_text(encoding="utf-8")


def test_bytes_do_not_depend_on_where_it_ran(exported: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    """Nor on when: there is no clock and no random id in them."""
    _, folder = exported("vllm-bench-detailed:{}/a.jsonl", "aiperf:{}/{level}.jsonl", "prometheus:{}/{level}.prom")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before) == 5
    exported("vllm-bench-detailed:{}/a.jsonl", "aiperf:{}/{level}.jsonl", "prometheus:{}/{level}.prom")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--export", "vllm"), "--export 'vllm' must be FORMAT:FILE"),
        (("--export", "vllm-bench:"), "must be FORMAT:FILE"),
        (
            ("--export", "vllm-bnch:x"),
            "is not one of aiperf, prometheus, vllm-bench, vllm-bench-detailed (did you mean",
        ),
        (("--export", "aiperf:{}/x.jsonl"), "has a file for each of the 2 load levels: write {level} in its name"),
        (("--export", "vllm-bench:{}"), "cannot be written: it is a folder"),
        (("--export", "vllm-bench:{}/small.yaml/x"), "small.yaml is a file"),
        (("--export", "vllm-bench:/dev/null"), "/dev/null cannot be written: it is no regular file"),
        (("--export", "aiperf:{}/x", "--export", "prometheus:{}/x", "--points", "1"), "is asked for in two formats"),
        (("--export", "aiperf:{}/x", "--points", "1", "--records", "{}/r.parquet"), "give one of them"),
        (("{}/small.yaml", "--export", "vllm-bench:{}/x"), "two of the scenarios are named"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    refused: Callable[..., str], small: Path, flags: tuple[str, ...], said: str
) -> None:
    """In one line, before anything is simulated."""
    assert said in refused(small, *(flag.replace("{}", str(small.parent)) for flag in flags))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(refused: Callable[..., str], small: Path, tmp_path: Path) -> None:
    """By name."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert f"no permission for {closed}" in refused(small, "--export", f"vllm-bench:{closed}/x.jsonl")
