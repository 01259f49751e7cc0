"""Jobs on a running Dask cluster. The scheduler runs again elsewhere what a lost worker was at or had finished."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from sim.errors import ClusterError
from sim.sweep.address import Address
from sim.sweep.code import code_fingerprint
from sim.sweep.remote import attempt_packed, check_code, packed
from sim.sweep.runner import Finished, Job, Runner, largest_first
from sim.sweep.task import Failure, Outcome

TIMEOUT_S = 5.0
RETRIES = 3  # of a task whose worker could not even begin it


@contextmanager
def dask_runner(address: Address) -> Iterator[Runner]:
    """Yield what runs jobs on the cluster of the scheduler at an address.

    Raises ClusterError if that is no Dask scheduler, or its workers cannot simulate as this process does.
    """
    from distributed import Client

    for name in ("distributed", "distributed.client"):  # what matters of it we say ourselves, in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(f"tcp://{address.host}:{address.port}", timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"--cluster {address.url}: no Dask scheduler answers there: {error}") from None
    with client:
        _check_workers(client, address.url)

        def run(jobs: Sequence[Job], /) -> Iterator[Finished]:
            return _run(client, address.url, jobs)

        yield run


def _check_workers(client: Any, url: str) -> None:
    try:
        client.wait_for_workers(1, timeout=TIMEOUT_S)
    except TimeoutError:
        raise ClusterError(f"--cluster {url}: the scheduler has no workers") from None
    answers = client.run(check_code, code_fingerprint(), on_error="return")
    for worker, answer in answers.items():
        if answer is not None:  # an exception, or what one looks like where the worker could not import ours
            raise ClusterError(f"--cluster {url}: worker {worker}: {answer}; install the same kvcliff there")


def _run(client: Any, url: str, jobs: Sequence[Job]) -> Iterator[Finished]:
    from distributed import as_completed

    calls, run = packed(jobs), uuid4().hex
    places = {
        client.submit(attempt_packed, *calls[place], key=f"kvcliff-{run}-{place}", pure=False, retries=RETRIES): place
        for place in largest_first(jobs)
    }
    for future in as_completed(list(places), loop=client.loop):
        yield Finished(places.pop(future), _outcome(future, url))


def _outcome(future: Any, url: str) -> Outcome | Failure:
    """Return what a task gave; raises ClusterError if that is nothing because of the cluster."""
    try:
        error = future.exception() if future.status == "error" else None
        if error is None:
            outcome: Outcome | Failure = future.result()
            return outcome
    except (OSError, CancelledError):
        gone = "the scheduler is gone; what had finished is kept, run it again to go on"
        raise ClusterError(f"--cluster {url}: {gone}") from None
    if isinstance(error, ClusterError):
        raise ClusterError(f"--cluster {url}: {error}")
    return Failure(" ".join(f"{type(error).__name__}: {error}".split()))
