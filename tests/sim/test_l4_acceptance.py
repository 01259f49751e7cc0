"""What the project promises about the L4 of founding document 000: real scenarios, real seeds."""

import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import coverage
import pytest

from sim.checks import failures, published_rows
from sim.results.published_errors import cell_errors, median_error, published_cells
from sim.run import Result, run_scenario
from sim.scenario import Scenario
from sim.setup import deploy
from sim.strict_yaml import decode, load_yaml

FOLDER = Path(__file__).parents[2] / "scenarios"
CPU_BUDGET_S = 15.0  # of one core; it takes about 5
MEMORY_BUDGET_MB = 200.0


def run(name: str, **options: Any) -> Result:
    """Return the result of a shipped scenario."""
    path = FOLDER / f"{name}.yaml"
    return run_scenario(deploy(decode(load_yaml(path), Scenario), str(path)), **options)


@pytest.fixture(scope="module")
def fp8() -> tuple[Result, float]:
    """Return the fp8 sweep, seven points with five seeds and their counterfactuals, and its CPU seconds."""
    gc.collect()
    gc.freeze()  # what other tests left behind, torch among it, is not the sweep's to search through
    before = time.process_time()
    result = run("l4-qwen3-4b-fp8")
    spent_s = time.process_time() - before
    gc.unfreeze()
    return result, spent_s


@pytest.fixture(scope="module")
def errors(fp8: tuple[Result, float]) -> dict[tuple[str, int], float]:
    """Return the signed relative error of every published cell of the fp8 sweep."""
    result = fp8[0]
    cells = cell_errors(result.points, published_rows(result.deployment.scenario))
    return {(cell.metric, int(cell.sessions)): cell.error for cell in cells}


def test_the_median_error_over_all_28_cells_is_within_ten_percent(fp8: tuple[Result, float]) -> None:
    """TTFT p50, p95, p99 and throughput at seven session counts; only one-session figures were fitted."""
    result = fp8[0]
    published = published_rows(result.deployment.scenario)
    assert published_cells(published) == len(cell_errors(result.points, published)) == 28
    median = median_error(result.points, published)
    assert median is not None
    assert median <= 0.10


@pytest.mark.parametrize("sessions", [1, 6, 10, 12, 14])
def test_throughput_is_within_ten_percent_up_to_the_knee(errors: dict[tuple[str, int], float], sessions: int) -> None:
    """The drop from 12 to 14 sessions included."""
    assert abs(errors["requests_per_s", sessions]) <= 0.10


@pytest.mark.parametrize("sessions", [14, 20])
def test_p99_is_within_thirty_percent_at_the_cliff(errors: dict[tuple[str, int], float], sessions: int) -> None:
    """Tens of seconds where there were two or three."""
    assert abs(errors["ttft_p99_s", sessions]) <= 0.30


def test_the_knee_of_fp8_is_at_14_sessions_and_the_kv_cache_is_why(fp8: tuple[Result, float]) -> None:
    """On the published grid; two seconds of p99 hold up to six sessions; the file's own checks pass."""
    result = fp8[0]
    assert result.knee.sessions == 14
    assert result.slo_sessions == 6
    assert result.cause is not None
    assert result.cause.name == "KV cache"
    assert failures(result) == []


def test_p99_breaks_at_the_knee_while_p50_hardly_moves(fp8: tuple[Result, float]) -> None:
    """From 12 sessions to 14: p99 times five or more, p50 less than doubled, throughput down by a tenth or more."""
    before, after = (next(p for p in fp8[0].points if p["sessions"] == sessions) for sessions in (12, 14))
    assert after["ttft_p99_s"] > 5 * before["ttft_p99_s"]
    assert after["ttft_p50_s"] < 2 * before["ttft_p50_s"]
    assert after["requests_per_s"] < 0.9 * before["requests_per_s"]
    assert (before["reprefilled_tokens"], after["reprefilled_tokens"] > 50_000) == (0, True)


def test_no_turn_of_the_sweep_is_refused_and_only_the_last_point_is_cut_off(fp8: tuple[Result, float]) -> None:
    """48 sessions meet the six minutes' limit; all others come to their end."""
    for point in fp8[0].points:
        assert point["refused"] == 0
        assert (point["unfinished"] > 0) == (point["sessions"] == 48)
        assert point["engine_busy"] <= 1.0


def test_the_whole_sweep_takes_seconds_of_one_core(fp8: tuple[Result, float]) -> None:
    """The one test about time, with room for three slower machines."""
    if coverage.Coverage.current() is not None:
        pytest.skip("measuring coverage slows every line several times over")
    assert fp8[1] < CPU_BUDGET_S


def test_a_sweep_in_a_process_of_its_own_stays_small() -> None:
    """Peak memory of `kvcliff run --quick --json`: interpreter, NumPy, pools and all."""
    arguments = ["run", str(FOLDER / "l4-qwen3-4b-fp8.yaml"), "--quick", "--json"]
    code = (
        "import json, resource, subprocess, sys\n"
        "command = [sys.executable, '-c', 'from sim.cli import main; main()', *sys.argv[1:]]\n"
        "done = subprocess.run(command, capture_output=True, check=True)\n"
        "print(json.dumps([resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, json.loads(done.stdout)]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)  # noqa: S603
    peak, printed = json.loads(done.stdout)
    per_mb = 1e6 if sys.platform == "darwin" else 1e3  # macOS reports bytes, Linux KiB
    assert printed["knee_sessions"] == 14
    assert peak / per_mb < MEMORY_BUDGET_MB


def test_the_knee_of_16_bit_kv_is_at_7_or_8_sessions() -> None:
    """Half the tokens; the promise holds up to four."""
    result = run("l4-qwen3-4b-fp16", levels=[1, 2, 4, 6, 8], explain=False)
    assert result.knee.sessions in {7, 8}
    assert result.slo_sessions == 4


def test_the_knee_of_4_bit_kv_is_at_22_to_24_sessions() -> None:
    """The document predicts 23 from capacity alone."""
    result = run("l4-qwen3-4b-tq4", levels=[18, 20, 22, 24], explain=False)
    assert result.knee.sessions is not None
    assert 22 <= result.knee.sessions <= 24


def test_the_worst_case_grows_by_two_seconds_a_session_and_saturates_early() -> None:
    """2.1 s a session and 0.32 requests/s from six sessions on, both within ten percent."""
    result = run("l4-bound-worst", seeds=1, explain=False)
    first, last = result.points[0], result.points[-1]
    slope_s = (last["ttft_p50_s"] - first["ttft_p50_s"]) / (last["sessions"] - first["sessions"])
    assert slope_s == pytest.approx(2.1, rel=0.10)
    for point in result.points:
        if point["sessions"] >= 6:
            assert point["requests_per_s"] == pytest.approx(0.32, rel=0.10)
    assert failures(result) == []


def test_the_best_case_keeps_48_sessions_within_two_seconds() -> None:
    """And one session sees its first token after 57 ms, within ten percent."""
    result = run("l4-bound-best", seeds=1, explain=False, levels=[1, 20, 48])
    assert result.slo_sessions == 48
    assert result.points[-1]["ttft_p99_s"] < 2.0
    assert result.points[0]["ttft_p50_s"] == pytest.approx(0.057, rel=0.10)
    assert failures(result) == []
