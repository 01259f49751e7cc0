"""`kvcliff trace`: tables, JSON, files, and what it says of files it cannot use."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import kvcliff, python

from sim.report.trace_numbers import span, tokens

CHATS = Path(__file__).resolve().parents[2] / "scenarios" / "traces" / "made-up-chats.jsonl"


def _json(*arguments: str | Path) -> Any:
    result = kvcliff("trace", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _rows(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def _row(at_ms: float = 0, tokens: int = 600, **more: object) -> dict[str, object]:
    return {"timestamp": at_ms, "input_length": tokens, "output_length": 5, **more}


def test_json_says_what_is_there() -> None:
    """Counts of the file, shares that add up, and how they were counted."""
    rows = [json.loads(line) for line in CHATS.read_text(encoding="utf-8").splitlines()]
    told = _json(CHATS, "--retention")
    assert told["format"] == "mooncake"
    assert told["requests"] == len(rows)
    assert told["prompt_tokens"] == sum(row["input_length"] for row in rows)
    assert told["sharing"]["distinct_blocks"] == len({block for row in rows for block in row["hash_ids"]})
    assert "512-token blocks" in told["sharing"]["counted"]
    assert "answers are not" in told["sharing"]["counted"]
    kept = told["retention"]
    assert kept["unlimited_hit_rate"] == told["hit_rate"] == kept["sizes"][-1]["lru_hit_rate"]
    assert kept["kept"][-1]["hit_rate"] == told["hit_rate"]
    for point in kept["sizes"]:
        assert point["lru_hit_rate"] <= point["optimum_hit_rate"] <= told["hit_rate"]
        assert point["lru_hit_tokens"] + point["lru_recomputed_tokens"] == kept["unlimited_hit_tokens"]
    assert kept["sizes"][0]["lru_prefill_ratio"] > kept["sizes"][-1]["lru_prefill_ratio"] == 1


def test_tables_chart_and_json_file(tmp_path: Path) -> None:
    """The same twice, byte for byte."""
    said = kvcliff("trace", CHATS, "--retention", "--out", tmp_path)
    assert said.exit_code == 0, said.output
    for words in ("made-up-chats.jsonl", "Mooncake JSONL: 155 requests", "optimum", "kept idle for", "wrote"):
        assert words in said.output
    assert max(map(len, said.output.replace(str(tmp_path), "").splitlines())) <= 80
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {"trace.png", "trace.svg", "trace.json"}
    assert json.loads(first["trace.json"]) == _json(CHATS, "--retention")
    kvcliff("trace", CHATS, "--retention", "--out", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_default_folder_is_named_after_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with --json nothing is written."""
    monkeypatch.chdir(tmp_path)
    _json(CHATS)
    assert not list(tmp_path.iterdir())
    assert kvcliff("trace", CHATS).exit_code == 0
    assert (tmp_path / "out" / "trace-made-up-chats" / "trace.png").exists()


def test_lengths_alone_have_no_hit_rate(tmp_path: Path) -> None:
    """The reason is told, and a chart drawn of what there is."""
    path = _rows(tmp_path / "lengths.jsonl", _row(0), _row(1000), _row(4000))
    told = _json(path, "--retention")
    assert told["hit_rate"] is told["sharing"] is told["retention"] is None
    assert "lengths alone" in told["no_hit_rate_because"]
    said = kvcliff("trace", path, "--retention", "--out", tmp_path / "out")
    assert said.exit_code == 0
    assert "no retention curve" in said.output
    assert (tmp_path / "out" / "trace.png").exists()


def test_one_request_is_a_trace(tmp_path: Path) -> None:
    """Nothing comes back, nothing has a rate, and everything is drawn that can be."""
    path = _rows(tmp_path / "one.jsonl", _row(hash_ids=[1, 2]))
    assert kvcliff("trace", path, "--retention", "--out", tmp_path / "out").exit_code == 0
    told = _json(path, "--retention")
    assert told["hit_rate"] == 0
    assert told["arrivals"] is None
    assert told["retention"]["half_life_s"] is None


def test_prompts_all_the_same(tmp_path: Path) -> None:
    """All but the first hit all of theirs, at once."""
    path = _rows(tmp_path / "same.jsonl", *[_row(hash_ids=[1, 2])] * 4)
    said = kvcliff("trace", path, "--retention", "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    assert _json(path)["hit_rate"] == 0.75


def test_limit_and_bad_rows(tmp_path: Path) -> None:
    """A bad row refuses the file, or is counted with the first one shown."""
    path = _rows(
        tmp_path / "bad.jsonl", _row(hash_ids=[1, 2]), "{", _row(9, 700, hash_ids=[1]), _row(9, hash_ids=[1, 2])
    )
    refused = kvcliff("trace", path, "--json")
    assert refused.exit_code == 2
    assert f"{path}:2:" in refused.stderr
    told = _json(path, "--skip-bad-rows")
    assert (told["requests"], told["bad_rows"]) == (2, 2)
    assert f"{path}:2:" in told["first_bad_row"]
    assert any("2 bad rows skipped" in line for line in told["readings"])
    assert _json(path, "--limit", "1")["requests"] == 1


def test_blocks_of_another_size(tmp_path: Path) -> None:
    """As given."""
    path = _rows(tmp_path / "small.jsonl", _row(0, 40, hash_ids=[1, 2, 3]), _row(1, 40, hash_ids=[1, 2, 4]))
    assert _json(path, "--block-tokens", "16")["sharing"]["overall"]["hit_tokens"] == 32
    assert kvcliff("trace", path, "--json").exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,c\n1,2,3\n", "the columns a, b, c"),
        ('{"x": 1}\n', "an object of x"),
        ("hello\n", "'hello'"),
        ("", "empty"),
        ("\0\1\2", "binary"),
    ],
)
def test_files_of_no_known_format(tmp_path: Path, text: str, words: str) -> None:
    """One line: what was seen, and which formats there are."""
    path = tmp_path / "what"
    path.write_text(text, encoding="utf-8")
    said = kvcliff("trace", path)
    assert said.exit_code == 2
    assert len(said.stderr.splitlines()) == 1
    assert words in said.stderr
    if "no format known" in said.stderr:
        assert "mooncake" in said.stderr


def test_names_are_helped_with(tmp_path: Path) -> None:
    """Formats, files and places."""
    assert "did you mean 'mooncake'" in kvcliff("trace", CHATS, "--format", "moncake").stderr
    assert "no such file" in kvcliff("trace", tmp_path / "none.jsonl").stderr
    (tmp_path / "file").touch()
    said = kvcliff("trace", CHATS, "--out", tmp_path / "file" / "folder")
    assert said.exit_code == 2
    assert "cannot be written" in said.stderr


def test_statistics_load_no_charts() -> None:
    """Machines that ask for JSON do not wait for matplotlib."""
    code = (
        "import sys; from sim.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "sys.exit('matplotlib' in sys.modules or 'simpy' in sys.modules)"
    )
    done = python("-c", code, "trace", str(CHATS), "--json")
    assert done.returncode == 0, done.stderr


def test_numbers_as_people_read_them() -> None:
    """Three digits and a unit."""
    assert [tokens(count) for count in (0, 7, 850, 999.9, 12_800, 999_900, 34.1e6, 2.5e12)] == [
        "0", "7", "850", "1k", "12.8k", "1M", "34.1M", "2,500G",
    ]  # fmt: skip
    assert [span(time_s) for time_s in (0, 0.057, 9.1, 59.99, 60, 3599, 86400 * 3.1)] == [
        "0 s", "57 ms", "9.1 s", "1 min", "1 min", "1 h", "3.1 d",
    ]  # fmt: skip
