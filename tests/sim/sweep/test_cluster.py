"""`--cluster` where there is no cluster: one line each, exit code 2, and soon."""

import socket
import sys
from pathlib import Path

import pytest
from cluster_processes import free_port
from command_line import kvcliff

from sim.errors import ClusterError
from sim.sweep import cluster
from sim.sweep.address import Address, parse_address
from sim.sweep.cluster import cluster_runner


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find every library, installed or not: none is reached here."""
    monkeypatch.setattr(cluster, "find_spec", lambda name: name)


def refused(url: str) -> str:
    """Return what is said of a URL."""
    with pytest.raises(ClusterError) as error, cluster_runner(url):
        pass
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"--cluster {url}")
    return str(error.value)


def test_an_address_is_a_scheme_a_host_and_a_port() -> None:
    """IPv6 in brackets too."""
    assert parse_address("dask://10.0.0.7:8786") == Address("dask://10.0.0.7:8786", "dask", "10.0.0.7", 8786)
    assert parse_address("ray://[::1]:10001/")[1:] == ("ray", "::1", 10001)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("dsk://host:8786", "'dsk' is not one of dask, ray (did you mean 'dask'?)"),
        ("tcp://host:8786", "'tcp' is not one of dask, ray"),
        ("host:8786", "expected dask://host:port or ray://host:port"),
        ("dask://host", "expected dask://host:port"),
        ("dask://:8786", "expected dask://host:port"),
        ("dask://host:port", "expected dask://host:port"),
        ("ray://host:99999", "expected dask://host:port"),
        ("ray://host:1/path", "expected dask://host:port"),
        ("", "expected dask://host:port"),
    ],
)
def test_what_is_no_address_is_refused(url: str, said: str) -> None:
    """With the valid schemes or the form."""
    assert said in refused(url)


@pytest.mark.parametrize(("scheme", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    scheme: str, library: str, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before anything is connected to."""
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    said = kvcliff("sweep", small, "--out", tmp_path / "out", "--cluster", f"{scheme}://127.0.0.1:1")
    assert said.exit_code == 2
    assert said.stderr == (
        f"kvcliff: --cluster {scheme}://127.0.0.1:1 needs {library}, which is not installed: "
        f"pip install 'kvcliff[{scheme}]'\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scheme", ["dask", "ray"])
def test_nobody_there_is_said_at_once(scheme: str) -> None:
    """Neither library is even imported."""
    before = {name for name in ("distributed", "ray") if name in sys.modules}
    assert "no scheduler answers there: Connection refused" in refused(f"{scheme}://127.0.0.1:{free_port()}")
    assert {name for name in ("distributed", "ray") if name in sys.modules} == before


def test_a_name_that_nobody_has_is_said() -> None:
    """As the resolver puts it."""
    assert "no scheduler answers there" in refused("dask://no-such-host.invalid:8786")


def test_a_listener_that_says_nothing_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server, say, waits for us to speak first; the libraries would wait with it."""
    monkeypatch.setattr(cluster, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert "timed out" in refused(f"dask://127.0.0.1:{server.getsockname()[1]}")
