"""What `kvcliff run` prints and writes: one JSON object or tables, files, and the verdict of checks."""

import json
from pathlib import Path

from command_line import kvcliff
from small_scenario import SMALL

POINT_KEYS = {
    "sessions", "requests", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p50_s", "itl_p99_s", "requests_per_s",
    "output_tokens_per_s", "prefix_hit_rate", "preemptions", "reprefilled_tokens", "kv_usage_peak",
}  # fmt: skip


def test_json_is_one_object_with_the_promised_keys_and_nothing_else(small: Path) -> None:
    """Exactly what DESIGN.md says at least; each metric has its interval."""
    result = kvcliff("run", small, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    printed = json.loads(result.stdout)
    assert printed.keys() >= {"scenario", "points", "knee_sessions", "knee_cause", "slo_sessions"}
    assert printed["scenario"] == "small"
    assert [point["sessions"] for point in printed["points"]] == [1, 2]
    for point in printed["points"]:
        assert point.keys() >= POINT_KEYS | {f"{key}_low" for key in POINT_KEYS - {"sessions"}}
        assert point.keys() >= {f"{key}_high" for key in POINT_KEYS - {"sessions"}}
        assert point["ttft_p99_s_low"] <= point["ttft_p99_s"] <= point["ttft_p99_s_high"]
        counts = ("sessions", "requests", "preemptions", "reprefilled_tokens")
        assert all(isinstance(point[key], int) for key in counts)
    assert (printed["knee_sessions"], printed["knee_cause"], printed["slo_sessions"]) == (None, None, 2)


def test_json_with_nothing_completed_has_null_and_no_nan(small: Path) -> None:
    """A run of a millisecond answers nobody."""
    result = kvcliff("run", small, "--json", "--set", "stop={duration_s: 0.001}")
    assert "NaN" not in result.stdout
    point = json.loads(result.stdout)["points"][0]
    assert (point["requests"], point["unfinished"], point["ttft_p99_s"]) == (0, 1, None)


def test_a_table_of_nothing_completed_is_still_a_table(small: Path, tmp_path: Path) -> None:
    """And its files are written, charts of unknown values included."""
    result = kvcliff("run", small, "--set", "stop={duration_s: 0.001}", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (tmp_path / "out" / "small" / "cliff.png").stat().st_size > 0


def test_json_of_two_scenarios_is_one_object_with_both(small: Path, tmp_path: Path) -> None:
    """In the order given."""
    other = tmp_path / "other.yaml"
    other.write_text(SMALL.replace("name: small", "name: other"), encoding="utf-8")
    printed = json.loads(kvcliff("run", other, small, "--json", "--quick").stdout)
    assert list(printed) == ["scenarios"]
    assert [one["scenario"] for one in printed["scenarios"]] == ["other", "small"]
    alone = json.loads(kvcliff("run", small, "--json", "--quick").stdout)
    assert printed["scenarios"][1] == alone


def test_json_with_variants_holds_each_under_its_name(small: Path) -> None:
    """As results of their own."""
    printed = json.loads(kvcliff("run", small, "--json", "--quick", "--variants").stdout)
    assert list(printed["variants"]) == ["bf16 KV"]
    assert printed["variants"]["bf16 KV"]["memory"]["bytes_per_token"] == 2 * printed["memory"]["bytes_per_token"]


def test_flags_replace_points_seeds_and_keys(small: Path) -> None:
    """Points in order, each once."""
    result = kvcliff("run", small, "--json", "--quick", "--points", "4,1,4", "--seeds", "1", "--set", "name=mine")
    printed = json.loads(result.stdout)
    assert printed["scenario"] == "mine"
    assert [point["sessions"] for point in printed["points"]] == [1, 4]
    assert printed["provenance"]["seeds"] == 1
    assert "ttft_p99_s_low" not in printed["points"][0]


def test_without_json_tables_and_sentences_are_printed_and_files_written(small: Path, tmp_path: Path) -> None:
    """The folder is named after the scenario; every file said to be written is there."""
    result = kvcliff("run", small, "--out", tmp_path / "out", "--variants")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "No KV knee up to 2 sessions" in " ".join(result.stdout.split())
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    names = ["cliff.png", "cliff.svg", "points.csv", "turns.csv", "result.json", "variants.png", "variants.svg"]
    assert written == {f"small/{name}" for name in names}
    assert all(name in result.stdout for name in names)


def test_check_exits_with_1_when_a_check_fails_and_0_when_it_holds(small: Path) -> None:
    """The line says what was found and what was expected; without --check it is only noted."""
    good, bad = "checks.slo_sessions=[2, 2]", "checks.slo_sessions=[7, 9]"
    assert kvcliff("run", small, "--json", "--quick", "--check", "--set", good).exit_code == 0
    assert kvcliff("run", small, "--json", "--quick", "--set", bad).exit_code == 0
    result = kvcliff("run", small, "--json", "--quick", "--check", "--set", bad)
    assert result.exit_code == 1
    assert result.stderr == "kvcliff: check failed: slo_sessions is 2, expected 7 to 9\n"
    assert json.loads(result.stdout)["failed_checks"] == ["slo_sessions is 2, expected 7 to 9"]
