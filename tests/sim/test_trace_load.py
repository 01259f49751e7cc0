"""A recorded trace in a scenario, from the file to the metrics, and what is said of one that is wrong."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import kvcliff

from sim.engine.clients import StopRule
from sim.engine.simulation import simulate
from sim.errors import KvcliffError
from sim.results.cause import RELIEFS
from sim.run import run_scenario
from sim.scenario import Scenario, load_levels, load_unit
from sim.setup import MAIN, Deployment, deploy
from sim.strict_yaml import apply_overrides, decode, load_yaml

TRACE = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(
    f"{number / 2},{100 + 7 * number},{5 + number}\n" for number in range(12)
)
SCENARIO = """
name: traced
gpu: L4
model: Qwen3-4B
weight_dtype: fp8
profile: l4-qwen3-4b-fp8
engine: {kv_cache_dtype: fp8, kv_cache_tokens: 20000, max_model_len: 4096}
load: {kind: trace, path: trace.csv}
slo: {ttft_p99_s: 2.0}
"""


MOONCAKE = (
    Path(__file__).parents[3] / "shared" / "data" / "traces" / "mooncake" / "conversation_lines_00001-02500.jsonl"
)


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """Return a scenario with a trace beside it."""
    (tmp_path / "trace.csv").write_text(TRACE, encoding="utf-8")
    path = tmp_path / "traced.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def deployed(path: Path, *overrides: str) -> Deployment:
    """Return the scenario with some keys changed."""
    return deploy(decode(apply_overrides(load_yaml(path), overrides), Scenario), str(path))


def test_every_request_of_the_trace_is_sent_at_its_time(traced: Path) -> None:
    """The path counts from the scenario's folder; one level, one seed, and the trace ends the run."""
    deployment = deployed(traced)
    assert (load_levels(deployment.scenario.load), load_unit(deployment.scenario.load)) == ([1], "trace")
    result = run_scenario(deployment)
    assert result.seeds == 1
    assert [row["arrival_s"] for row in result.turns[1]] == [number / 2 for number in range(12)]
    assert [row["prompt_tokens"] for row in result.turns[1]] == [100 + 7 * number for number in range(12)]
    assert {row["population"] for row in result.turns[1]} == {MAIN}
    assert result.points[0]["requests"] == 12
    assert result.points[0]["knee_ratio"] == pytest.approx(1.0)


def test_it_may_be_repeated_denser_cut_and_stopped(traced: Path) -> None:
    """Options of the load, and a stop rule."""
    setup = deployed(traced, "load={kind: trace, path: trace.csv, repeat: 3, rate_scale: 2, limit: 4}").load_at(1)
    assert setup.given is not None
    assert [one.at_s for one in setup.given.requests] == [n / 4 + turn for turn in range(3) for n in range(4)]
    assert setup.stop == StopRule()
    stopped = deployed(traced, "stop={duration_s: 2.2}")
    assert stopped.load_at(1).stop == StopRule(duration_s=2.2)
    result = run_scenario(stopped)
    assert (result.points[0]["duration_s"], len(result.turns[1])) == (2.2, 5)


def test_the_division_by_hand_is_of_whole_requests(traced: Path) -> None:
    """A request has 149 tokens on average, and no prefix."""
    by_hand = deployed(traced).arithmetic
    assert (by_hand.shared_prefix_tokens, by_hand.unique_tokens_per_session) == (0, 149)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("load.path=other.csv", "other.csv: there is no such file"),
        ("load.format=vidor", "(did you mean 'vidur'?)"),
        ("load.repeat=0", "load.repeat 0 must be >= 1"),
        ("load.rate_scale=0", "load.rate_scale 0 must be > 0"),
        ("load.limits=3", "load.limits is not a known key (did you mean 'limit'?)"),
        (
            "workload={shared_prefix_tokens: 0, turns: 1, new_tokens: 1, output_tokens: 1}",
            "workload has no place",
        ),
        (
            "background={sessions: 1, workload: {shared_prefix_tokens: 0, turns: 1, new_tokens: 1, output_tokens: 1}}",
            "background has no place beside load.kind trace",
        ),
        ("stop={sessions_per_client: 1}", "stop.sessions_per_client needs load.kind closed"),
        ("load={kind: poisson, sessions_per_minute: [1]}", "workload is required but missing"),
    ],
)
def test_what_fits_no_trace_is_refused(refused: Callable[..., str], traced: Path, key: str, said: str) -> None:
    """In one line that names the key, with nothing written."""
    assert said in refused(traced, "--set", key)


def test_a_stop_rule_is_still_required_of_sessions(traced: Path) -> None:
    """They would never end."""
    workload = "workload={shared_prefix_tokens: 0, turns: 1, new_tokens: 1, output_tokens: 1}"
    with pytest.raises(KvcliffError, match="stop is required but missing"):
        deployed(traced, workload, "load={kind: closed, sessions: [1]}")


def test_a_bad_row_is_found_before_anything_is_simulated(refused: Callable[..., str], traced: Path) -> None:
    """File, line, column and value."""
    (traced.parent / "trace.csv").write_text(TRACE + "6.5,many,3\n", encoding="utf-8")
    assert "trace.csv:14: num_prefill_tokens 'many' must be a whole number" in refused(traced)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("load={kind: trace, path: trace.csv, start_s: 99}", "trace.csv: no requests from 99 s"),
        ("load={kind: trace, path: trace.csv, start_s: 3, stop_s: 2}", "stop_s 2 must be above start_s 3"),
        ("load.share=0", "load.share 0 must be > 0"),
        ("load.jitter_s=-1", "load.jitter_s -1 must be >= 0"),
        ("load.rows=both", "load.rows 'both' is not one of"),
        ("load.format=mooncake", "trace.csv:1: no JSON"),
        ("load.path=/dev/zero", "/dev/zero: is no regular file"),
        ("load.path=.", "traced.yaml: no format known here begins with"),
        ("replay={path: trace.csv}", "replay has no place beside load.kind trace"),
    ],
)
def test_rules_that_leave_nothing_or_fit_no_file_are_refused(
    refused: Callable[..., str], traced: Path, key: str, said: str
) -> None:
    """In one line."""
    assert said in refused(traced, "--set", key)


def test_the_result_says_where_its_requests_are_from(traced: Path) -> None:
    """Format, digest, how the file was read, by which rules."""
    result = kvcliff("run", traced, "--set", "load.limit=9", "--quick", "--json")
    trace = json.loads(result.stdout)["provenance"]["trace"]
    assert (trace["format"], trace["requests"], trace["sessions"], trace["bad_rows"]) == ("vidur", 9, None, 0)
    assert trace["rules"]["limit"] == 9
    assert trace["sha256"] == hashlib.sha256(TRACE.encode()).hexdigest()
    assert trace["notes"]


def test_a_coarse_clock_is_told_of(traced: Path) -> None:
    """And what would spread its bursts."""
    rows = "".join(f"{number // 5 * 3},100,5\n" for number in range(40))
    (traced.parent / "trace.csv").write_text(TRACE.splitlines()[0] + "\n" + rows, encoding="utf-8")
    assert "arrivals are stamped every 3 s and sent so, in bursts: the p99 is theirs; load.jitter_s=3" in told(traced)
    assert "each is sent up to 3 s later" in told(traced, "--set", "load.jitter_s=3")


@pytest.mark.skipif(not MOONCAKE.exists(), reason="the sample of Mooncake's conversations is not here")
def test_an_unlimited_cache_hits_what_an_infinite_one_would(traced: Path) -> None:
    """Mooncake's first 300 conversations, one tick after another: every prompt's longest run of blocks seen before.

    By the engine's rule: whole blocks of 16, and at least one token is computed. Counted from the file itself.
    """
    lines = [json.loads(line) for line in MOONCAKE.read_text("utf-8").splitlines()[:300]]
    seen: set[int] = set()
    expected = 0
    for row in lines:
        known = 0
        while known < len(row["hash_ids"]) and row["hash_ids"][known] in seen:
            known += 1
        expected += min(known * 512, row["input_length"] - 1) // 16 * 16
        seen.update(row["hash_ids"])
    changes = (
        f"load={{kind: trace, path: {MOONCAKE}, limit: 300, rate_scale: 0.001}}",
        "frontend={per_request_s: 0, per_prompt_token_s: 0}",
    )
    deployment = deployed(traced, *changes)
    assert deployment.trace is not None
    engine = RELIEFS["KV cache"](deployment.engine)
    roomy = replace(engine.scheduler, max_model_len=200_000, max_num_batched_tokens=1_000_000)
    run = simulate(replace(engine, scheduler=roomy), deployment.load_at(1), 0)
    assert len(run.records) == 300
    assert [record.prompt_tokens for record in run.records] == [row["input_length"] for row in lines]
    assert sum(record.hit_tokens for record in run.records) == expected
    assert expected > 0.05 * sum(row["input_length"] for row in lines)


def test_a_trace_takes_no_points(refused: Callable[..., str], traced: Path) -> None:
    """Three traces at once is not what it would do."""
    assert "takes no --points" in refused(traced, "--points", "3")
    swept = kvcliff("sweep", traced, "--points", "3", "--out", traced.parent / "out")
    assert (swept.exit_code, swept.stderr.count("\n")) == (2, 1)
    assert "takes no --points" in swept.stderr
    assert kvcliff("run", traced, "--points", "1", "--quick", "--json").exit_code == 0


def told(traced: Path, *flags: str | Path) -> str:
    """Return what a run of the trace prints, in one line."""
    result = kvcliff("run", traced, "--out", traced.parent / "out", *flags)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_a_trace_is_told_in_its_own_words(traced: Path) -> None:
    """Requests and not sessions; no division by hand, no load to name, no seeds."""
    text = told(traced)
    assert "trace: 12 requests, 2 a second" in text
    assert "The KV cache does not slow this trace (p99 TTFT " in text
    assert "SLO (p99 TTFT within 2 s): met." in text
    assert "The p99 is of 12 requests." in text
    for word in ("by hand", "session", "1 trace", "seed)"):
        assert word not in text


def test_the_description_of_another_rate_is_left_out(traced: Path) -> None:
    """It may name the rate that was changed; the trace's own line has the new one."""
    traced.write_text(f"{SCENARIO}description: two a second, always\n", encoding="utf-8")
    assert "two a second, always" in told(traced, "--set", "engine.max_num_seqs=8")
    faster = told(traced, "--set", "load.rate_scale=3")
    assert "always" not in faster
    assert "trace: 12 requests, 6 a second" in faster
    assert "trace: 1 request, all at once" in told(traced, "--set", "load.limit=1")


def test_refused_requests_of_a_trace_are_counted_and_break_the_slo(traced: Path) -> None:
    """And nothing else is said to."""
    (traced.parent / "trace.csv").write_text(TRACE + "6.5,9000,3\n", encoding="utf-8")
    text = told(traced)
    assert "SLO (p99 TTFT within 2 s): missed, 1 of 13 requests refused." in text
    assert "1 of 13 requests refused, too long: prompts of up to 9,000 tokens" in text
    assert "What breaks the SLO" not in text
    swept = kvcliff("sweep", traced, "--over", "load.rate_scale=1,2", "--out", traced.parent / "swept")
    assert [line.split()[:3] for line in swept.stdout.splitlines()[4:6]] == [["1", "-", "missed"], ["2", "-", "missed"]]
    assert "rate_scale 2: 1 of 13 requests refused, too long" in swept.stdout


def test_a_trace_that_the_cache_slows_is_said_to_be(traced: Path) -> None:
    """A dozen requests at once, of which the pool holds one."""
    changes = ("load.rate_scale=1000", "engine.max_model_len=192", "engine.kv_cache_tokens=208")
    text = told(traced, *(flag for change in changes for flag in ("--set", change)))
    assert "The KV cache slows this trace more than 3x (p99 TTFT " in text


def test_a_trace_is_drawn_request_by_request(traced: Path, tmp_path: Path) -> None:
    """Unless their rows were kept elsewhere; then no chart of another run stays."""
    pytest.importorskip("pyarrow")
    assert "cliff.png" in told(traced)
    assert (tmp_path / "out" / "traced" / "cliff.svg").exists()
    assert "cliff.png" not in told(traced, "--records", tmp_path / "requests.parquet")
    assert sorted(path.name for path in (tmp_path / "out" / "traced").iterdir()) == ["points.csv", "result.json"]
