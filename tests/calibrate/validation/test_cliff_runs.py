"""Reading recorded runs."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from calibrate.validation.cliff_runs import find_runs, repeats
from calibrate.validation.cliff_workload import Shape, draw_workload
from sim.errors import MeasurementError
from sim.steptime.batch import BatchShape

SHAPE = Shape(shared=64, first=(8, 8), grow=(8, 8), out=(2, 2), turns=1, turns_per_slot=1, think=(0, 0), stagger=0.1)
ENGINE = {
    "block_size": 32, "num_gpu_blocks": 64, "max_num_batched_tokens": 64, "max_num_seqs": 4, "max_model_len": 512,
    "attention": "a key we do not read",
}  # fmt: skip
REQUEST = {"id": "s0t0", "due": 0, "prompt_len": 72, "token_times": [0.03, 0.04], "first_hit": 0}
STEPS = [
    {"cpu": 0.02, "scheduled": {"s0t0": 64}, "hit": {"s0t0": 0}},
    {"cpu": 0.01, "scheduled": {"s0t0": 8}},
    {"cpu": 0.01, "scheduled": {"s0t0": 1}},
]


def lines(rows: list[dict]) -> bytes:
    """Return rows as a zipped file holds them."""
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0)


def write(stem: Path, *, seed: int = 1, blocks: int = 64) -> Path:
    """Write a run of one request and return the stem."""
    stem.parent.mkdir(exist_ok=True)
    workload = draw_workload("agent", SHAPE, sessions=1, seed=seed)
    Path(f"{stem}.workload.json.gz").write_bytes(gzip.compress(msgspec.json.encode(workload), mtime=0))
    Path(f"{stem}.summary.json").write_text(json.dumps({"engine": ENGINE | {"num_gpu_blocks": blocks}}))
    Path(f"{stem}.requests.jsonl.gz").write_bytes(lines([REQUEST]))
    Path(f"{stem}.steps.jsonl.gz").write_bytes(lines(STEPS))
    return stem


def test_a_run_is_found_at_any_depth_and_its_batches_are_counted(tmp_path: Path) -> None:
    """Chunks make prefill pairs from where they start; the token that follows is a decode row."""
    write(tmp_path / "again" / "run")
    (run,) = find_runs([tmp_path])
    assert run.name == "again/run"
    assert list(run.batches()) == [
        BatchShape(64, 0, 64 * 32.5, 0, 0, 0.0, holds_prefill=True),
        BatchShape(8, 0, 8 * 68.5, 0, 0, 0.0, holds_prefill=True),
        BatchShape(1, 0, 0.0, 1, 73, 0.0, holds_prefill=False),
    ]
    assert run.busy_s == pytest.approx(0.04)


def test_runs_repeat_each_other_if_input_and_settings_are_the_same(tmp_path: Path) -> None:
    """Another seed or another cache is another case, whatever the files are called."""
    write(tmp_path / "a")
    write(tmp_path / "b" / "other name")
    write(tmp_path / "c", seed=2)
    write(tmp_path / "d", blocks=128)
    groups = repeats(find_runs([tmp_path]))
    assert [[run.name for run in group] for group in groups] == [["a", "b/other name"], ["c"], ["d"]]


def test_no_folder_and_no_runs_are_told_apart(tmp_path: Path) -> None:
    """The message says which."""
    with pytest.raises(MeasurementError, match="no such folder"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(MeasurementError, match=r"no NAME\.workload\.json\.gz"):
        find_runs([tmp_path])


def read_everything(folder: Path) -> None:
    """Read every file below a folder to its end."""
    for run in find_runs([folder]):
        assert list(run.batches())
        assert run.requests


@pytest.mark.parametrize(
    ("suffix", "content", "says"),
    [
        (".workload.json.gz", b"not zipped", r"run\.workload\.json\.gz: .*gzip"),
        (".workload.json.gz", gzip.compress(b"{}", mtime=0), r"run\.workload\.json\.gz: .*profile"),
        (".summary.json", b'{"engine": {}}', r"run\.summary\.json: .*block_size"),
        (".summary.json", json.dumps({"engine": ENGINE, "complete": False}).encode(), "cut short"),
        (".requests.jsonl.gz", lines([REQUEST, {"id": 5}]), r"run\.requests\.jsonl\.gz:2: .*id"),
        (".steps.jsonl.gz", lines([*STEPS, {"cpu": "x"}]), r"run\.steps\.jsonl\.gz:4: .*cpu"),
        (".steps.jsonl.gz", lines([STEPS[1]]), r"run\.steps\.jsonl\.gz:1: .*s0t0"),
        (".requests.jsonl.gz", lines([REQUEST | {"token_times": []}]), r"run\.requests\.jsonl\.gz:1: .*token_times"),
        (".requests.jsonl.gz", lines([]), r"run\.requests\.jsonl\.gz: .*no requests"),
        (".steps.jsonl.gz", lines(STEPS)[:-9], r"run\.steps\.jsonl\.gz: .*gzip"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path: Path, suffix: str, content: bytes, says: str) -> None:
    """One line that leads to the place, for each file a run is made of."""
    stem = write(tmp_path / "run")
    Path(f"{stem}{suffix}").write_bytes(content)
    with pytest.raises(MeasurementError, match=says) as error:
        read_everything(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".summary.json", ".requests.jsonl.gz", ".steps.jsonl.gz"])
def test_a_missing_file_is_named(tmp_path: Path, suffix: str) -> None:
    """A run lacks none of its four files."""
    stem = write(tmp_path / "run")
    Path(f"{stem}{suffix}").unlink()
    with pytest.raises(MeasurementError, match=f"run{suffix}"):
        find_runs([tmp_path])
