"""Recorded runs of a real engine: folders of NAME.{workload,summary,requests,steps} files, read and checked.

Runs of the same workload with the same engine settings are repeats of each other, whatever folder they lie in.
Times are seconds of the engine's own clock: the CPU time of its steps, idle gaps jumped over.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from calibrate.validation.cliff_workload import Workload
from sim.errors import MeasurementError
from sim.scheduling.continuous import SchedulerConfig
from sim.steptime.batch import BatchShape

WORKLOAD, SUMMARY, REQUESTS, STEPS = ".workload.json.gz", ".summary.json", ".requests.jsonl.gz", ".steps.jsonl.gz"
T = TypeVar("T")


class EngineSettings(msgspec.Struct, frozen=True):
    """The settings a run depends on, by vLLM's names; other keys of the file are ignored."""

    block_size: int
    num_gpu_blocks: int  # block 0 included
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    enable_prefix_caching: bool = True
    async_scheduling: bool = False

    @property
    def scheduler(self) -> SchedulerConfig:
        """The same for our scheduler."""
        return SchedulerConfig(
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.max_model_len,
            block_size=self.block_size,
            async_scheduling=self.async_scheduling,
        )


class _Summary(msgspec.Struct):
    engine: EngineSettings
    complete: bool = True


class RecordedRequest(msgspec.Struct, frozen=True):
    """One request as it went."""

    id: str
    due: float
    prompt_len: int
    token_times: list[float]
    first_hit: int
    preemptions: int = 0


class RecordedStep(msgspec.Struct, frozen=True):
    """One step: the CPU seconds it took, and what the scheduler decided by request id."""

    cpu: float
    scheduled: dict[str, int]
    hit: dict[str, int] = {}
    preempted: list[str] = []


@dataclass(frozen=True)
class RecordedRun:
    """One run; its requests and steps are read when they are first asked for."""

    name: str  # the path below the folder, without what follows the stem
    stem: Path
    workload: Workload
    engine: EngineSettings

    @cached_property
    def requests(self) -> list[RecordedRequest]:
        """Every request; each has an answer."""
        found = list(_records(self.stem, REQUESTS, RecordedRequest))
        if not found:
            raise MeasurementError(f"{_beside(self.stem, REQUESTS)}: no requests in it")
        for line, request in enumerate(found, start=1):
            if not request.token_times:
                place = f"{_beside(self.stem, REQUESTS)}:{line}"
                raise MeasurementError(f"{place}: token_times of {request.id!r} is empty: it has no answer")
        return found

    @cached_property
    def steps(self) -> list[RecordedStep]:
        """Every step in order."""
        return list(_records(self.stem, STEPS, RecordedStep))

    @property
    def busy_s(self) -> float:
        """CPU seconds over all steps."""
        return sum(step.cpu for step in self.steps)

    def batches(self) -> Iterator[BatchShape]:
        """Yield every step's batch in numbers. A row of one token is a decode row, as in the simulator."""
        computed: dict[str, int] = {}
        for line, step in enumerate(self.steps, start=1):
            computed |= step.hit
            tokens = decode_rows = decode_kv = 0
            pairs = 0.0
            for request, count in step.scheduled.items():
                if request not in computed:
                    place = f"{_beside(self.stem, STEPS)}:{line}"
                    raise MeasurementError(f"{place}: {request!r} is scheduled, but no hit says that it was admitted")
                before = computed[request]
                computed[request] = before + count
                tokens += count
                if count == 1:
                    decode_rows, decode_kv = decode_rows + 1, decode_kv + before + 1
                else:
                    pairs += count * (before + (count + 1) / 2)
            yield BatchShape(tokens, 0, pairs, decode_rows, decode_kv, 0.0, pairs > 0)


def find_runs(folders: Iterable[Path]) -> list[RecordedRun]:
    """Return every run below the folders, by name.

    Raises MeasurementError naming the file if there are none, or one cannot be read.
    """
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise MeasurementError(f"{folder}: no such folder")
        stems = sorted(str(path).removesuffix(WORKLOAD) for path in folder.rglob(f"*{WORKLOAD}"))
        if not stems:
            raise MeasurementError(f"{folder}: no NAME{WORKLOAD} in it or below it")
        found += [_run(folder, Path(stem)) for stem in stems]
    return found


def repeats(runs: Sequence[RecordedRun]) -> list[list[RecordedRun]]:
    """Return the runs in groups of the same workload and engine settings, in the order they were given."""
    groups: dict[tuple[bytes, EngineSettings], list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault((msgspec.json.encode(run.workload), run.engine), []).append(run)
    return list(groups.values())


def _run(folder: Path, stem: Path) -> RecordedRun:
    workload = _decoded(_beside(stem, WORKLOAD), Workload)
    summary = _decoded(_beside(stem, SUMMARY), _Summary)
    if not summary.complete:
        raise MeasurementError(f"{_beside(stem, SUMMARY)}: complete: the run was cut short, record it again")
    for what in (REQUESTS, STEPS):
        if not _beside(stem, what).is_file():
            raise MeasurementError(f"{_beside(stem, what)}: missing beside {stem.name}{WORKLOAD}")
    return RecordedRun(str(stem.relative_to(folder)), stem, workload, summary.engine)


def _beside(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)


def _read(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a whole gzip file"
        raise MeasurementError(f"{path}: {reason}") from None


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_read(path), type=kind)
    except msgspec.DecodeError as error:
        raise MeasurementError(f"{path}: {error}") from None


def _records(stem: Path, suffix: str, kind: type[T]) -> Iterator[T]:
    path = _beside(stem, suffix)
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(_read(path).splitlines(), start=1):
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise MeasurementError(f"{path}:{number}: {error}") from None
