"""Real cluster processes on loopback: started, waited for, and ended by whoever started them."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a Python process that can import this repository; what it says goes to a file."""
    with log.open("wb") as file:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )


def stop(*processes: subprocess.Popen[bytes]) -> None:
    """End processes, whether they still run or not."""
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Return once something is true; fail with what was waited for."""
    since = monotonic()
    while not true():
        assert monotonic() - since < PATIENCE_S, what
        sleep(0.05)


def listens(port: int) -> bool:
    """Tell whether somebody accepts connections."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
