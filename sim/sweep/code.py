"""Which code simulates: a fingerprint of the files and libraries that a task's metrics depend on.

Charts, tables and commands are left out: how a result is shown does not change it.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_SIM = Path(__file__).resolve().parent.parent
_WORKLOADS = _SIM.parent / "workloads"
SIMULATING = (
    "catalog",
    "cost_spec.py",
    "engine",
    "engine_flags.py",
    "kv",
    "memory",
    "memory_request",
    "scheduling",
    "startup_log",
    "steptime",
    "results",
    "pressure_setup.py",
    "pressure_spec.py",
    "scenario.py",
    "setup.py",
    "sweep/task.py",
    "trace_setup.py",
    "trace_spec.py",
    "units.py",
    "workload_setup.py",
    "workload_spec.py",
)
LIBRARIES = ("numpy", "simpy")  # random numbers, and the order of events


def simulating_files() -> Iterator[Path]:
    """Yield the Python files that decide what a simulation gives."""
    for place in (*(_SIM / name for name in SIMULATING), _WORKLOADS):
        yield from [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))


def fingerprint(files: Iterable[Path]) -> str:
    """Return the hash of the files' contents and of the libraries' versions."""
    digest = sha256(" ".join(f"{name} {version(name)}" for name in LIBRARIES).encode())
    for path in files:
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Return the fingerprint of the code in this process, read once."""
    return fingerprint(simulating_files())
