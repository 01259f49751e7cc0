"""A real Ray with a client server on loopback: the results of one process, also when a worker is killed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from cluster_processes import free_port, listens, start, stop, wait_until
from command_line import kvcliff
from sweep_jobs import in_order

from sim.errors import ClusterError
from sim.sweep import ray_cluster
from sim.sweep.cluster import cluster_runner
from sim.sweep.local import LocalRunner
from sim.sweep.runner import Job
from sim.sweep.task import Failure, Task

pytest.importorskip("ray", reason="needs the ray extra (240 MB): pip install 'kvcliff[ray]'")
psutil: Any = pytest.importorskip("psutil")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, many of them


class Cluster:
    """A node of two CPUs in the foreground, and a server that speaks for it to clients."""

    def __init__(self, folder: Path) -> None:
        head, self.port = free_port(), free_port()
        self.sockets = f"/tmp/ray-{os.getpid()}"  # noqa: S108 -- the path of a socket has a hundred letters at most
        how = ("--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats", "--object-store-memory=100000000")
        ports = (f"--port={head}", f"--runtime-env-agent-port={free_port()}", "--node-ip-address=127.0.0.1")
        command = ("-m", "ray.scripts.scripts", "start", "--head", "--block", f"--temp-dir={self.sockets}")
        self.node = start(folder / "node.log", *command, *ports, *how)
        wait_until(lambda: b"Ray runtime started" in (folder / "node.log").read_bytes(), "a Ray node")
        where = (f"--address=127.0.0.1:{head}", "--host=127.0.0.1", f"--port={self.port}")
        self.server = start(folder / "server.log", "-m", "ray.util.client.server", "--mode=legacy", *where)
        wait_until(lambda: listens(self.port), "a Ray client server")

    @property
    def url(self) -> str:
        """What --cluster is given."""
        return f"ray://127.0.0.1:{self.port}"

    def busy_workers(self) -> list[Any]:
        """Return the worker processes that are at a task of ours."""
        processes = psutil.Process(self.node.pid).children(recursive=True)
        return [one for one in processes if any("attempt_packed" in part for part in one.cmdline())]

    def close(self) -> None:
        """End all processes."""
        children = psutil.Process(self.node.pid).children(recursive=True)
        stop(self.server, self.node)
        for child in children:
            if child.is_running():
                child.kill()
        psutil.wait_procs(children, timeout=10)
        rmtree(self.sockets, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a running Ray."""
    made = Cluster(tmp_path_factory.mktemp("ray"))
    try:
        yield made
    finally:
        made.close()


def test_a_worker_killed_half_way_loses_nothing(cluster: Cluster, jobs: list[Job]) -> None:
    """What it was at is run again; a failure stays one."""
    many = [Job(job.deployment, Task(job.task.level, seed, job.task.lifted)) for job in jobs for seed in range(5)]
    asked = [*many, Job(jobs[0].deployment, Task(1, 0, "gravity"))]
    finished, killed = [], 0
    with cluster_runner(cluster.url) as runner:
        for one in runner(asked):
            finished.append(one)
            for worker in cluster.busy_workers()[:1] if len(finished) >= 10 and not killed else ():
                worker.kill()
                killed += 1
    assert killed == 1
    outcomes = in_order(finished)
    assert repr(outcomes[:-1]) == repr(in_order(list(LocalRunner(1)(asked[:-1]))))
    assert isinstance(outcomes[-1], Failure)
    assert outcomes[-1].error == "KeyError: 'gravity'"


def test_a_sweep_on_the_cluster_is_the_sweep_of_one_process(cluster: Cluster, small: Path, tmp_path: Path) -> None:
    """Bisection and causes included; the cluster is there afterwards."""
    arguments = (small, "--over", "engine.max_num_seqs=1,8", "--json")
    there = kvcliff("sweep", *arguments, "--out", tmp_path / "there", "--cluster", cluster.url)
    assert there.exit_code == 0, there.output
    here = kvcliff("sweep", *arguments, "--out", tmp_path / "here", "--jobs", "1")
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert cluster.node.poll() is cluster.server.poll() is None


def test_workers_with_other_code_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first simulation."""
    monkeypatch.setattr(ray_cluster, "code_fingerprint", lambda: "other")
    said = r"a worker: .*differs from this machine's; install the same"
    with pytest.raises(ClusterError, match=said) as refused, cluster_runner(cluster.url):
        pass
    assert "\n" not in str(refused.value)


def test_a_cluster_that_dies_ends_the_sweep_in_one_line(
    cluster: Cluster, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test here: it takes the server with it. Ray hopes for its return, by default half a minute."""
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "1")
    finished = []
    with cluster_runner(cluster.url) as runner, pytest.raises(ClusterError, match="the cluster is gone"):  # noqa: PT012
        for one in runner(jobs):
            finished.append(one)
            cluster.server.kill()
    assert finished
