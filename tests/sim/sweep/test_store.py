"""What finished stays finished: outcomes on disk, whatever happened to the file."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sweep_jobs import in_order

from sim.errors import ScenarioError
from sim.sweep import store as store_module
from sim.sweep.local import LocalRunner
from sim.sweep.runner import Finished, Job
from sim.sweep.store import Store
from sim.sweep.task import Failure, Outcome, Task


class Counting:
    """Runs jobs here, and remembers which."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def __call__(self, jobs: Sequence[Job], /) -> Iterator[Finished]:
        """Run them."""
        self.tasks += [job.task for job in jobs]
        return LocalRunner(1)(jobs)


def through(path: Path, jobs: list[Job]) -> tuple[list[Outcome | Failure], list[Task]]:
    """Return the outcomes by a fresh store on a file, and which tasks it had to run."""
    runner, store = Counting(), Store(path)
    outcomes = in_order(list(store.through(runner)(jobs)))
    assert (store.reused, store.computed) == (len(jobs) - len(runner.tasks), len(runner.tasks))
    return outcomes, runner.tasks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a place whose folder does not exist yet."""
    return tmp_path / "sweep" / "simulations.jsonl"


def test_a_second_time_nothing_is_run_and_the_numbers_are_the_same_bits(path: Path, jobs: list[Job]) -> None:
    """Also those that are not numbers."""
    first, ran = through(path, jobs)
    assert ran == [job.task for job in jobs]
    second, again = through(path, jobs)
    assert again == []
    assert repr(second) == repr(first)


def test_nan_and_infinity_survive(path: Path, jobs: list[Job]) -> None:
    """A load where nothing is answered has no p99."""

    def runner(jobs: Sequence[Job], /) -> Iterator[Finished]:
        yield Finished(0, Outcome({"ttft_p99_s": math.nan, "more": math.inf, "third": 1 / 3}))

    list(Store(path).through(runner)(jobs[:1]))
    ((_, outcome),) = Store(path).through(Counting())(jobs[:1])
    assert isinstance(outcome, Outcome)
    assert math.isnan(outcome.metrics["ttft_p99_s"])
    assert (outcome.metrics["more"], outcome.metrics["third"]) == (math.inf, 1 / 3)


def test_only_what_is_new_is_run(path: Path, jobs: list[Job]) -> None:
    """A rerun with more jobs, in another order."""
    through(path, jobs[:5])
    _, ran = through(path, jobs[::-1])
    assert ran == [job.task for job in jobs[:4:-1]]


@pytest.mark.parametrize("kept", [0, 1, 30, -1])
def test_a_line_cut_short_is_run_again_and_nothing_else(path: Path, jobs: list[Job], kept: int) -> None:
    """And the next line does not join it."""
    expected, _ = through(path, jobs)
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + last[: kept if kept >= 0 else len(last) - 1])
    outcomes, ran = through(path, jobs)
    assert repr(outcomes) == repr(expected)
    assert len(ran) == (kept >= 0)  # only the line end was missing: the entry is whole
    assert through(path, jobs)[1] == []


@pytest.mark.parametrize("damage", [b"7", b"\xff", b"\n"])
def test_a_damaged_line_is_run_again(path: Path, jobs: list[Job], damage: bytes) -> None:
    """Also where it still reads as JSON."""
    expected, _ = through(path, jobs)
    text = path.read_bytes()
    middle = text.index(b"duration_s") + 13
    path.write_bytes(text[:middle] + damage + text[middle + 1 :])
    assert text[middle : middle + 1] != damage
    outcomes, ran = through(path, jobs)
    assert ran == [jobs[0].task]
    assert repr(outcomes) == repr(expected)


def test_each_outcome_is_on_disk_before_the_next_is_asked_for(path: Path, jobs: list[Job]) -> None:
    """Whoever kills the process loses at most what is under way."""
    for number, _ in enumerate(Store(path).through(Counting())(jobs), start=1):
        assert path.read_bytes().count(b"\n") == number


def test_equal_jobs_are_run_once(path: Path, jobs: list[Job]) -> None:
    """However many combinations they belong to; both get the outcome."""
    runner = Counting()
    outcomes = in_order(list(Store(path).through(runner)([jobs[0], jobs[1], jobs[0]])))
    assert runner.tasks == [jobs[0].task, jobs[1].task]
    assert outcomes[0] == outcomes[2] != outcomes[1]


def test_a_failure_is_tried_again(path: Path, jobs: list[Job]) -> None:
    """What failed once may have been mended since."""
    broken = [jobs[0], Job(jobs[0].deployment, Task(1, 0, "gravity"))]
    for _ in range(2):
        store = Store(path)
        outcomes = in_order(list(store.through(LocalRunner(1))(broken)))
        assert isinstance(outcomes[1], Failure)
    assert (store.reused, store.computed) == (1, 0)


def test_other_code_computes_everything_again(path: Path, jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """And the old outcomes stay for whoever goes back."""
    through(path, jobs)
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "code_fingerprint", lambda: "other")
        assert len(through(path, jobs)[1]) == len(jobs)
    assert through(path, jobs)[1] == []


def test_a_place_that_cannot_be_used_is_said_in_one_line(tmp_path: Path, jobs: list[Job]) -> None:
    """A folder where the file should be, a file where the folder should be."""
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        Store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ScenarioError, match="cannot be written"):
        list(Store(tmp_path / "file" / "simulations.jsonl").through(Counting())(jobs))


def test_two_writers_do_not_disturb_each_other(path: Path, jobs: list[Job]) -> None:
    """Lines are appended whole: taking turns at one file leaves both lots in it."""
    first = Store(path).through(Counting())(jobs[:6])
    second = Store(path).through(Counting())(jobs[6:])
    for _ in range(6):
        next(first)
        next(second)
    assert through(path, jobs)[1] == []


def test_nothing_is_written_where_everything_is_known(path: Path, jobs: list[Job]) -> None:
    """Not even the time of the file changes, which a sync would notice."""
    through(path, jobs)
    before = path.stat().st_mtime_ns
    path.chmod(0o444)
    assert through(path, jobs)[1] == []
    assert path.stat().st_mtime_ns == before
