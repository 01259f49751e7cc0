"""`--cluster URL`: the same jobs on a cluster that already runs; only the library it needs is imported."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec

from sim.errors import ClusterError
from sim.sweep.address import LIBRARIES, Address, parse_address
from sim.sweep.runner import Runner

TIMEOUT_S = 5.0


@contextmanager
def cluster_runner(url: str) -> Iterator[Runner]:
    """Yield what runs jobs on the cluster at a URL; leave the cluster as it was.

    Raises ClusterError if its library is not installed, it does not answer, has no workers, or they have other code.
    """
    address = parse_address(url)
    library = LIBRARIES[address.scheme]
    if find_spec(library) is None:
        raise ClusterError(
            f"--cluster {url} needs {library}, which is not installed: pip install 'kvcliff[{address.scheme}]'"
        )
    _check_speaks(address)
    with _runners()[address.scheme](address) as runner:
        yield runner


def _runners() -> Mapping[str, Callable[[Address], AbstractContextManager[Runner]]]:
    from sim.sweep.dask_cluster import dask_runner
    from sim.sweep.ray_cluster import ray_runner

    return {"dask": dask_runner, "ray": ray_runner}


def _check_speaks(address: Address) -> None:
    """Raise ClusterError where nobody listens, or what does says nothing: the libraries would wait long, or for ever.

    Dask and Ray (gRPC) both greet whoever connects.
    """
    try:
        with socket.create_connection((address.host, address.port), TIMEOUT_S) as connection:
            greeting = connection.recv(1)
    except OSError as error:
        raise ClusterError(f"--cluster {address.url}: no scheduler answers there: {error.strerror or error}") from None
    if not greeting:
        raise ClusterError(f"--cluster {address.url}: no scheduler answers there: it hung up")
