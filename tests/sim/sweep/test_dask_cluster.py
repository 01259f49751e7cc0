"""A real Dask scheduler with two worker processes on loopback: the results of one process, whoever is killed."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_processes import free_port, listens, start, stop, wait_until
from command_line import kvcliff
from sweep_jobs import in_order

from sim.errors import ClusterError
from sim.sweep import dask_cluster
from sim.sweep.cluster import cluster_runner
from sim.sweep.local import LocalRunner
from sim.sweep.runner import Job
from sim.sweep.task import Failure, Outcome, Task

pytest.importorskip("distributed", reason="needs the dask extra: pip install 'kvcliff[dask]'")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

Process = subprocess.Popen[bytes]


class Cluster:
    """A scheduler, and workers that can be added and killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.workers: list[Process] = []
        where = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        self.scheduler = start(folder / "scheduler.log", "-m", "distributed.cli.dask_scheduler", *where)
        wait_until(lambda: listens(self.port), "a scheduler")

    @property
    def url(self) -> str:
        """What --cluster is given."""
        return f"dask://127.0.0.1:{self.port}"

    def add_worker(self) -> None:
        """Start a worker that nobody starts again when it dies; return once the scheduler knows it."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        how = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder))
        worker = start(log, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{self.port}", *how)
        self.workers.append(worker)
        wait_until(lambda: b"Registered to" in log.read_bytes(), "a worker")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Yield a cluster of two workers."""
    made = Cluster(tmp_path)
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        stop(made.scheduler, *made.workers)


def many(jobs: list[Job]) -> list[Job]:
    """Return enough jobs that a worker can be killed half-way."""
    return [Job(job.deployment, Task(job.task.level, seed, job.task.lifted)) for job in jobs for seed in range(5)]


def test_a_worker_killed_half_way_loses_nothing(cluster: Cluster, jobs: list[Job]) -> None:
    """What it was at, and what it had finished and nobody had fetched, is run by the other; a failure stays one."""
    asked = [*many(jobs), Job(jobs[0].deployment, Task(1, 0, "gravity"))]
    finished = []
    with cluster_runner(cluster.url) as runner:
        for one in runner(asked):
            finished.append(one)
            if len(finished) == 10:
                cluster.workers[0].kill()
    assert cluster.workers[0].wait() != 0
    outcomes = in_order(finished)
    assert repr(outcomes[:-1]) == repr(in_order(list(LocalRunner(1)(asked[:-1]))))
    assert isinstance(outcomes[-1], Failure)
    assert outcomes[-1].error == "KeyError: 'gravity'"


def test_a_sweep_on_the_cluster_is_the_sweep_of_one_process(cluster: Cluster, small: Path, tmp_path: Path) -> None:
    """Bisection and causes included; what it computed is reused here."""
    arguments = (small, "--over", "engine.max_num_seqs=1,8", "--json")
    there = kvcliff("sweep", *arguments, "--out", tmp_path / "there", "--cluster", cluster.url)
    assert there.exit_code == 0, there.output
    here = kvcliff("sweep", *arguments, "--out", tmp_path / "here", "--jobs", "1")
    assert json.loads(there.stdout) == json.loads(here.stdout)
    again = kvcliff("sweep", *arguments, "--out", tmp_path / "there", "--jobs", "1")
    assert " 0 computed" in again.stderr
    assert cluster.scheduler.poll() is None


def test_a_scheduler_that_dies_ends_the_sweep_in_one_line(cluster: Cluster, jobs: list[Job]) -> None:
    """What had been yielded stays known."""
    finished: list[Outcome | Failure] = []
    with cluster_runner(cluster.url) as runner, pytest.raises(ClusterError, match="the scheduler is gone") as gone:  # noqa: PT012
        for one in runner(many(jobs)):
            finished.append(one.outcome)
            if len(finished) == 10:
                cluster.scheduler.kill()
    assert len(finished) >= 10
    assert "\n" not in str(gone.value)


def test_workers_with_other_code_are_refused(
    cluster: Cluster, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first simulation; and one that joins later, at its first."""
    with monkeypatch.context() as patched:
        patched.setattr(dask_cluster, "code_fingerprint", lambda: "other")
        said = r"worker tcp://.* differs from this machine's.*install the same"
        with pytest.raises(ClusterError, match=said), cluster_runner(cluster.url):
            pass
    with cluster_runner(cluster.url) as runner:
        monkeypatch.setattr("sim.sweep.remote.code_fingerprint", lambda: "other")
        with pytest.raises(ClusterError, match="differs from this machine's"):
            list(runner(jobs))


def test_a_scheduler_without_workers_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a moment in which some might join."""
    monkeypatch.setattr(dask_cluster, "TIMEOUT_S", 1.0)
    cluster = Cluster(tmp_path)
    try:
        with pytest.raises(ClusterError, match="the scheduler has no workers"), cluster_runner(cluster.url):
            pass
    finally:
        stop(cluster.scheduler)
