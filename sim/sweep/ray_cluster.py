"""Jobs on a running Ray cluster, through its client port. Ray runs again elsewhere what a lost worker was at."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sim.errors import ClusterError
from sim.sweep.address import Address
from sim.sweep.code import code_fingerprint
from sim.sweep.remote import attempt_packed, check_code, packed
from sim.sweep.runner import Finished, Job, Runner, largest_first
from sim.sweep.task import Failure, Outcome

PROBE_TIMEOUT_S = 30.0
RETRIES = 3  # of a task whose worker died


@contextmanager
def ray_runner(address: Address) -> Iterator[Runner]:
    """Yield what runs jobs on the cluster whose Ray Client server listens at an address.

    Raises ClusterError if none answers, or its workers cannot simulate as this process does.
    """
    import ray

    try:
        ray.init(f"ray://{address.host}:{address.port}", logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ImportError) as error:  # refused, another version, without its client extra
        raise ClusterError(f"--cluster {address.url}: {_last_line(error)}") from None
    try:
        _check_workers(ray, address.url)

        def run(jobs: Sequence[Job], /) -> Iterator[Finished]:
            return _run(ray, address.url, jobs)

        yield run
    finally:
        ray.shutdown()


def _check_workers(ray: Any, url: str) -> None:
    probe = ray.remote(check_code).options(num_cpus=0).remote(code_fingerprint())
    try:
        ray.get(probe, timeout=PROBE_TIMEOUT_S)
    except ray.exceptions.GetTimeoutError:
        raise ClusterError(f"--cluster {url}: no worker answers within {PROBE_TIMEOUT_S:g} s") from None
    except (ClusterError, ray.exceptions.RayError) as error:
        raise ClusterError(f"--cluster {url}: a worker: {_last_line(error)}; install the same kvcliff there") from None


def _run(ray: Any, url: str, jobs: Sequence[Job]) -> Iterator[Finished]:
    remote = ray.remote(attempt_packed).options(num_cpus=1, max_retries=RETRIES)
    calls = packed(jobs)
    places = {remote.remote(*calls[place]): place for place in largest_first(jobs)}
    while places:
        try:
            (reference,), _ = ray.wait(list(places), num_returns=1)
            finished = Finished(places.pop(reference), _outcome(ray, reference, url))
        except ConnectionError:
            gone = "the cluster is gone; what had finished is kept, run it again to go on"
            raise ClusterError(f"--cluster {url}: {gone}") from None
        yield finished


def _outcome(ray: Any, reference: Any, url: str) -> Outcome | Failure:
    """Return what a task gave; raises ClusterError if its worker has other code."""
    try:
        outcome: Outcome | Failure = ray.get(reference)
    except ClusterError as error:
        raise ClusterError(f"--cluster {url}: {_last_line(error)}") from None
    except ray.exceptions.RayError as error:
        return Failure(f"{type(error).__name__}: {_last_line(error)}")
    return outcome


def _last_line(error: BaseException) -> str:
    """Return what a message with the other side's traceback in it comes down to."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
