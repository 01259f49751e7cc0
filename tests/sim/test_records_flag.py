"""`kvcliff run --records`: every turn in a Parquet file that is whole or absent, the same as in turns.csv."""

import csv
import json
import math
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from command_line import kvcliff, python

from sim.results import table_keeper

TIMES = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s")
CUT = ("--set", "stop={duration_s: 2}", "--points", "2", "--seeds", "1", "--quick")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return a Parquet file's rows."""
    rows: list[dict[str, Any]] = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return rows


@pytest.fixture
def recorded(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs the small scenario with its records in turns.parquet, a few in each row group."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(table_keeper, "AT_ONCE", 4)
    return lambda *flags: kvcliff("run", small, "--records", tmp_path / "turns.parquet", *flags)


def test_records_are_the_rows_of_turns_csv(recorded: Callable[..., Result], small: Path, tmp_path: Path) -> None:
    """Turns that the end of the run cut off included, what is not known null. No turns.csv is written, or left over."""
    (tmp_path / "with" / "small").mkdir(parents=True)
    (tmp_path / "with" / "small" / "turns.csv").write_text("of another run", encoding="utf-8")
    assert recorded(*CUT, "--out", tmp_path / "with").exit_code == 0
    assert kvcliff("run", small, *CUT, "--out", tmp_path / "without").exit_code == 0
    with (tmp_path / "without" / "small" / "turns.csv").open(encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    found = rows_of(tmp_path / "turns.parquet")
    assert {row["outcome"] for row in found} == {"completed", "unfinished"}
    for row in found:
        del row["token_steps"]
    texts = [
        {key: _as_csv(key, value) for key, value in row.items()}
        for row in sorted(found, key=lambda row: (row["session"], row["turn"]))
    ]
    for row in expected:
        del row["sessions"]
    assert texts == sorted(expected, key=lambda row: (row["session"], int(row["turn"])))
    assert not (tmp_path / "with" / "small" / "turns.csv").exists()
    points = [(tmp_path / folder / "small" / "points.csv").read_bytes() for folder in ("with", "without")]
    assert points[0] == points[1]


def _as_csv(key: str, value: object) -> str:
    if value is None:
        return "nan" if key in TIMES else ""
    return repr(value) if isinstance(value, float) else str(value)


def test_gaps_between_tokens_follow_from_the_files(recorded: Callable[..., Result], tmp_path: Path) -> None:
    """The steps of a turn's stretches, and when each step ended, give the ITL that is printed."""
    printed = recorded("--points", "2", "--seeds", "1", "--quick", "--json")
    (point,) = json.loads(printed.stdout)["points"]
    ends_s = [row["end_s"] for row in rows_of(tmp_path / "turns.steps.parquet")]
    gaps: list[float] = []
    for row in rows_of(tmp_path / "turns.parquet"):
        steps = [step for part in row["token_steps"] for step in range(part["first"], part["last"] + 1)]
        times_s = [ends_s[step - 1] for step in steps]
        assert (times_s[0], times_s[-1], len(times_s)) == (row["first_token_s"], row["last_token_s"], 5)
        gaps += np.diff(times_s).tolist()
    assert point["itl_p99_s"] == pytest.approx(np.percentile(gaps, 99), rel=1e-12)
    assert not any(map(math.isnan, gaps))


def test_names_are_kept_once_a_row_group(recorded: Callable[..., Result], tmp_path: Path) -> None:
    """As dictionaries, which readers turn into categories."""
    recorded("--points", "2", "--seeds", "1", "--quick", "--json")
    file = pytest.importorskip("pyarrow.parquet").ParquetFile(tmp_path / "turns.parquet")
    assert file.metadata.num_rows == 4
    assert file.num_row_groups == 1  # and no empty one after it
    dictionaries = [field.name for field in file.schema_arrow if str(field.type).startswith("dictionary")]
    assert dictionaries == ["population", "session", "outcome", "evicted_by"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--records", "{}/turns.csv", "--points", "1"), "turns.csv: the file must end in .parquet"),
        (("--records", "{}/turns.parquet"), "the records of one load level, not of 1, 2: choose one with --points"),
        (("{}/small.yaml", "--records", "{}/turns.parquet", "--points", "1"), "two of the scenarios are named"),
        (("--records", "{}/small.yaml/turns.parquet", "--points", "1"), "cannot be written"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    refused: Callable[..., str], small: Path, flags: tuple[str, ...], said: str
) -> None:
    """In one line, before anything is simulated."""
    assert said in refused(small, *(flag.format(small.parent) for flag in flags))


def test_without_pyarrow_one_line_says_what_to_install(
    refused: Callable[..., str], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is simulated."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refused(small, "--records", small.parent / "turns.parquet", "--points", "1")
    assert "the extra [parquet]: pip install 'kvcliff[parquet]'" in said


def test_a_run_that_fails_leaves_no_file(
    recorded: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither under the final name nor under another."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sim.results.measure.write_steps", full)
    failed = recorded("--points", "2", "--seeds", "1", "--quick", "--json")
    assert (failed.exit_code, failed.stderr) == (2, "kvcliff: No space left on device\n")
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


KILLED = """
import os, signal
from sim.cli import main
from sim.results import measure

measure.write_steps = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


def test_a_run_that_is_killed_leaves_nothing_under_the_final_name(small: Path, tmp_path: Path) -> None:
    """All turns are written by then, under a name that nobody takes for the file."""
    pytest.importorskip("pyarrow")
    flags = ("--points", "2", "--seeds", "1", "--quick", "--json", "--jobs", "1")
    killed = python("-c", KILLED, "run", str(small), *flags, "--records", str(tmp_path / "turns.parquet"))
    assert killed.returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir() if path != small]
    assert any(name.endswith(".partial") for name in left)
    assert all(name.startswith(".turns.") for name in left)


def test_neither_records_nor_metrics_import_pandas(small: Path, tmp_path: Path) -> None:
    """The converters of pyarrow would."""
    pytest.importorskip("pyarrow")
    code = "import sys; from sim.cli import main; main(standalone_mode=False); assert 'pandas' not in sys.modules"
    flags = ("--points", "2", "--seeds", "1", "--quick", "--json", "--records", str(tmp_path / "turns.parquet"))
    assert python("-c", code, "run", str(small), *flags).returncode == 0


GROWTH = """
import gc, resource, sys
from sim.engine import intake
from sim.engine.clients import StopRule
from sim.engine.given import GivenRequests
from sim.engine.simulation import LoadSetup
from sim.load import load_deployment
from sim.results import table_keeper
from sim.results.measure import measure
from workloads import Prompt, RecordedRequest, Span

intake._ASKED_AT_FIRST = table_keeper.AT_ONCE = 1000
seen = {}


def requests(count):
    for number in range(count):
        if number in (5_000, count - 1):
            gc.collect()
            seen[number] = sys.getallocatedblocks()
        yield RecordedRequest(number / 8, Prompt((Span(number, 0, 300),), Span(number, 300, 6), 0))


deployment = load_deployment(sys.argv[1])
load = LoadSetup((), StopRule(), given=GivenRequests("session", requests(int(sys.argv[2]))))
metrics = measure(deployment.engine, load, 0, population="session", slo=deployment.slo)
assert metrics["requests"] == int(sys.argv[2])
assert metrics["evicted_blocks"] > 50_000
first, last = seen.values()
print(last - first, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_memory_does_not_grow_with_requests_beyond_their_columns(small: Path) -> None:
    """Between two moments of a run, as many Python objects are alive; more requests cost 1 kB each at most.

    That is a row of 90 bytes, 16 bytes a step, and what percentiles need while they are sorted.
    """
    ran = [python("-c", GROWTH, str(small), count) for count in ("10000", "20000")]
    assert [one.returncode for one in ran] == [0, 0], ran[0].stderr
    (few_more, few_bytes), (many_more, many_bytes) = ([int(word) for word in one.stdout.split()] for one in ran)
    assert abs(few_more) < 500
    assert abs(many_more) < 500
    assert many_bytes - few_bytes < 10_000 * 1_000
