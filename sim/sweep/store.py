"""Outcomes on disk: a line a finished task, appended at once, so that a killed sweep has lost nothing it finished.

Each line holds a checksum of the rest. A line cut short by a kill, or damaged since, is as good as absent: its task is
simulated again. The last whole line of a key counts.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from sim.errors import ScenarioError
from sim.sweep.code import code_fingerprint
from sim.sweep.key import deployment_key, task_key
from sim.sweep.runner import Finished, Job, Runner
from sim.sweep.task import Outcome

Metrics = dict[str, float]


class Store:
    """The metrics of finished tasks by key, in one file of JSON lines; raises ScenarioError if it cannot be kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = 0
        self.reused = 0
        self.computed = 0
        try:
            self._known = _read(path)
        except OSError as error:
            raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None

    def through(self, runner: Runner) -> Runner:
        """Return a runner that takes from here what is known, runs the rest, and keeps it as it finishes.

        It counts what it was asked for, reused and computed, a job asked for twice once. Failures are not kept, nor
        are rows of turns.
        """

        def run(jobs: Sequence[Job], /) -> Iterator[Finished]:
            keys = _keys(jobs)
            wanted: dict[str, list[int]] = {}  # equal jobs are run once
            known = {index: key for index, key in enumerate(keys) if key in self._known}
            for index, key in enumerate(keys):
                if index not in known:
                    wanted.setdefault(key, []).append(index)
            self.asked += len(known) + len(wanted)
            for index, key in known.items():
                self.reused += 1
                yield Finished(index, Outcome(self._known[key]))
            if not wanted:
                return
            indices = list(wanted.values())
            with _opened(self.path) as file:
                for found, outcome in runner([jobs[same[0]] for same in indices]):
                    if isinstance(outcome, Outcome):
                        self._keep(file, keys[indices[found][0]], jobs[indices[found][0]], outcome.metrics)
                        self.computed += 1
                    for index in indices[found]:
                        yield Finished(index, outcome)

        return run

    def _keep(self, file: BinaryIO, key: str, job: Job, metrics: Metrics) -> None:
        self._known[key] = metrics
        task = job.task
        entry = {"key": key, "level": task.level, "seed": task.seed, "lifted": task.lifted, "metrics": metrics}
        text = json.dumps(entry)
        line = f"{_checksum(text)} {text}\n".encode()
        try:
            written = file.write(line)  # unbuffered: one write a line
        except OSError as error:
            raise ScenarioError(f"{file.name}: cannot be written: {error.strerror}") from None
        if written != len(line):
            raise ScenarioError(f"{file.name}: cannot be written: no room")


def _keys(jobs: Sequence[Job]) -> list[str]:
    code = code_fingerprint()
    deployments = {id(job.deployment): job.deployment for job in jobs}
    known = {name: deployment_key(deployment.parts) for name, deployment in deployments.items()}
    return [task_key(known[id(job.deployment)], job.task, code) for job in jobs]


def _opened(path: Path) -> BinaryIO:
    """Open for appending whole lines: what a kill cut short gets its own line end first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab+", buffering=0)
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be written: {error.strerror}") from None
    return file


def _read(path: Path) -> dict[str, Metrics]:
    known: dict[str, Metrics] = {}
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for line in lines:
        checksum, _, text = line.decode("utf-8", "replace").partition(" ")
        if text and checksum == _checksum(text):
            entry = json.loads(text)
            known[entry["key"]] = entry["metrics"]
    return known


def _checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
