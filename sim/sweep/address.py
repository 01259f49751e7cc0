"""Where a cluster's scheduler listens, as `--cluster` says it."""

from typing import NamedTuple
from urllib.parse import urlsplit

from sim.errors import ClusterError, one_of

LIBRARIES = {"dask": "distributed", "ray": "ray"}  # the module a scheme needs; the extra is named after the scheme


class Address(NamedTuple):
    """A host and a port, and what the user wrote."""

    url: str
    scheme: str
    host: str
    port: int


def parse_address(url: str) -> Address:
    """Return the parts of `dask://host:port` or `ray://host:port`; raises ClusterError for anything else."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:  # no number, or none that a port can have
        host = port = None
    if parts.scheme not in LIBRARIES and "://" in url:
        raise ClusterError(f"--cluster {url}: {one_of(parts.scheme, LIBRARIES)}")
    if not host or port is None or parts.path.strip("/"):
        raise ClusterError(f"--cluster {url}: expected dask://host:port or ray://host:port")
    return Address(url, parts.scheme, host, port)
