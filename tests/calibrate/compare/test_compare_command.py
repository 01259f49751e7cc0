"""`kvcliff compare` at the command line: tables, files, the re-fitted profile, `--check`, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from planted import as_vllm_bench, planted_runs, run_of

from calibrate.compare.terms import CLIENT, DECODE, KV_BLOCKS, Change
from sim.cli import main
from sim.load import load_deployment
from sim.workload_profiles import profile_path

ROOT = Path(__file__).parents[3]
L4 = ROOT / "scenarios" / "l4-qwen3-4b-fp8.yaml"
SHARED = ROOT.parent / "shared" / "data" / "results"
LLAMA = """\
name: h100-llama
gpu: H100
model: Llama-3.1-8B
weight_dtype: bf16
profile: h100
engine: {gpu_memory_utilization: 0.9, max_model_len: 512, max_num_seqs: 128, async_scheduling: false,
         scheduler_reserve_full_isl: false, vllm_version: 0.11.0}
workload: {shared_prefix_tokens: 128, turns: 1, new_tokens: 75, output_tokens: 62}
load: {kind: closed, sessions: [1]}
stop: {requests: 100}
"""


def kvcliff(*arguments: object, code: int = 0) -> Result:
    """Run the command and expect this exit code."""
    result = CliRunner().invoke(main, ["compare", *map(str, arguments), "--jobs", "1"])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def bench_file(folder: Path, change: Change | None, loads: tuple[int, ...] = (1, 8), **fields: Any) -> Path:
    """Write what `vllm bench serve --append-result` would, with some fields changed."""
    runs = planted_runs(load_deployment(L4), change, loads, requests=30)
    path = folder / "bench.jsonl"
    rows = [as_vllm_bench(run, detailed=True) | fields for run in runs]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def one_line(result: Result, *words: str) -> None:
    """Expect one short line on stderr with these words."""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert len(lines[0]) < 400
    for word in words:
        assert word in lines[0]


def test_a_scenario_may_name_a_workload_profile(tmp_path: Path) -> None:
    """As `kvcliff run` reads it; re-fitted into another folder it still finds the profile's file."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "talk.yaml").write_text(profile_path("simple").read_text(encoding="utf-8"), encoding="utf-8")
    path, mine = own / "agents.yaml", tmp_path / "mine.yaml"
    words = L4.read_text(encoding="utf-8")
    workload = words[words.index("workload:") : words.index("load:", words.index("workload:") + len("workload:"))]
    path.write_text(words.replace(workload, "workload: {profile: ./talk.yaml}\n"), encoding="utf-8")
    kvcliff(path, bench_file(tmp_path, Change(KV_BLOCKS, 0.5), (24,)), "--refit", mine, "--term", KV_BLOCKS)
    assert load_deployment(mine).load_at(1).populations[0].workload.prefix[0].length == 10_000
    assert str(own / "talk.yaml") in mine.read_text(encoding="utf-8").replace("\n", "")


def test_the_refitted_profile_gives_the_refitted_prediction(tmp_path: Path) -> None:
    """Written with where it is from, read back by `profile: path`; then little is left."""
    measured, mine, out = bench_file(tmp_path, Change(DECODE, 0.7), (1, 24)), tmp_path / "mine.yaml", tmp_path / "out"
    first = kvcliff(L4, measured, "--refit", mine, "--out", out)
    assert "most likely decode bandwidth x0." in first.stdout
    assert f"--set profile={mine}" in first.stdout
    for name in ("compare.png", "compare.svg", "compare.csv"):
        assert (out / name).stat().st_size > 200
    text = mine.read_text(encoding="utf-8")
    assert "refitted to" in text
    assert "bench.jsonl" in text
    again = json.loads(kvcliff(L4, measured, "--set", f"profile={mine}", "--quick", "--json", "--check").stdout)
    assert again["median_abs_error"] < 0.02
    assert again["profile"] == "mine"


def test_refitted_blocks_are_a_scenario(tmp_path: Path) -> None:
    """Which runs, and says how many blocks it has."""
    measured, mine = bench_file(tmp_path, Change(KV_BLOCKS, 0.5), (48,)), tmp_path / "mine.yaml"
    said = kvcliff(L4, measured, "--refit", mine).stdout
    assert "most likely KV blocks x0.5" in said
    assert "num_gpu_blocks_override" in mine.read_text(encoding="utf-8")
    kvcliff(mine, measured, "--quick", "--check")


def test_half_the_blocks_fail_the_check_though_most_points_are_good(tmp_path: Path) -> None:
    """Five loads far below the knee and one beyond it: the median is exact, the prediction is not."""
    base, change = load_deployment(L4), Change(KV_BLOCKS, 0.5)
    path = tmp_path / "bench.jsonl"
    rows = [as_vllm_bench(run) for run in planted_runs(base, change, (1, 2, 3, 4, 5), requests=20)]
    rows.append(as_vllm_bench(run_of(base, change, 64, [2500] * 200, [150] * 200)))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    result = kvcliff(L4, path, "--quick", "--check", code=1)
    assert "check failed" in result.stderr
    assert "is off by a factor of" in result.stderr


def test_json_holds_both_sides_and_the_cause(tmp_path: Path) -> None:
    """Numbers only, no NaN."""
    found = json.loads(kvcliff(L4, bench_file(tmp_path, Change(CLIENT, 0.2)), "--json").stdout)
    assert found["cause"]["named"] == [CLIENT]
    assert found["cause"]["terms"][0]["value"] == pytest.approx(0.2, rel=0.1)
    assert [point["level"] for point in found["points"]] == [1, 8]
    assert {row["metric"] for row in found["errors"]} >= {"ttft_p50_s", "tpot_mean_s", "requests_per_s"}


def test_another_model_is_a_note(tmp_path: Path) -> None:
    """It is compared all the same."""
    assert (
        "measured with model mistralai/Mistral-7B"
        in kvcliff(L4, bench_file(tmp_path, None, model_id="mistralai/Mistral-7B"), "--quick").stdout
    )


def test_a_file_given_twice_counts_once(tmp_path: Path) -> None:
    """Also within its folder."""
    measured = bench_file(tmp_path, None)
    found = json.loads(kvcliff(L4, measured, measured, tmp_path, "--quick", "--json").stdout)
    assert len(found["points"]) == 2
    assert any("given twice" in note for note in found["notes"])


def test_a_background_load_is_a_note(tmp_path: Path) -> None:
    """It is not sent, and that explains a gap."""
    apart = ROOT / "scenarios" / "l4-background-apart.yaml"
    assert "background load is not sent" in kvcliff(apart, bench_file(tmp_path, None, (1,)), "--quick").stdout


def test_only_failures_are_nothing_to_compare_with(tmp_path: Path) -> None:
    """One line that says so."""
    path = bench_file(tmp_path, None, completed=0, failed=30, errors=["timed out"] * 30)
    one_line(kvcliff(L4, path, code=2), "no request completed", "bench.jsonl")


def test_what_cannot_be_compared_is_one_line(tmp_path: Path) -> None:
    """A scenario that does not start, an unknown GPU, requests too long, a missing file, a place not writable."""
    measured = bench_file(tmp_path, None, (1,))
    one_line(kvcliff(L4, measured, "--set", "engine.kv_cache_tokens=64", code=2), "would not start")
    one_line(kvcliff(L4, measured, "--set", "gpu=H1000", code=2), "H1000", "did you mean")
    one_line(
        kvcliff(L4, measured, "--set", "engine.max_model_len=16", code=2), "answers no request", "max_model_len is 16"
    )
    one_line(kvcliff(L4, tmp_path / "none.json", code=2), "none.json")
    one_line(kvcliff(L4, bench_file(tmp_path, None, (1,), max_concurrency=0), code=2), "a concurrency of 0")
    measured = bench_file(tmp_path, None, (1,))
    one_line(kvcliff(tmp_path / "none.yaml", measured, code=2), "none.yaml")
    one_line(kvcliff(L4, measured, "--refit", tmp_path / "mine.txt", code=2), "--refit", ".yaml")
    one_line(kvcliff(L4, measured, "--refit", measured / "mine.yaml", code=2), "cannot be written")
    assert not (tmp_path / "mine.txt").exists()


def test_nothing_to_explain_writes_no_profile(tmp_path: Path) -> None:
    """Unless a term is forced."""
    measured, mine = bench_file(tmp_path, None, (1,)), tmp_path / "mine.yaml"
    one_line(kvcliff(L4, measured, "--refit", mine, code=2), "nothing to explain", "--term")
    assert not mine.exists()
    kvcliff(L4, measured, "--refit", mine, "--term", DECODE)
    assert mine.exists()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared measurements are not here")
def test_a_real_sweep_is_compared(tmp_path: Path) -> None:
    """Llama-3.1-8B on an H100, vLLM 0.11: throughput within 20 %, TPOT low by what the host adds."""
    scenario = tmp_path / "llama.yaml"
    scenario.write_text(LLAMA, encoding="utf-8")
    folder = SHARED / "inference_perf" / "h100_llama3.1-8b_vllm_chunking_and_prefix_caching"
    found = json.loads(kvcliff(scenario, folder, "--quick", "--limit-requests", 3000, "--json").stdout)
    assert [point["regime"] for point in found["points"]] == ["below"] * 5 + ["beyond"] * 2
    assert found["misfit_factors"]["throughput"] < 1.2
    assert found["misfit_factors"]["TPOT"] < 1.25
    assert found["median_abs_error"] < 0.25
