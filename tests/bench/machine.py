"""The machine, the interpreter and the commit that figures belong to."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from bench.results import Machine

ROOT = Path(__file__).resolve().parents[2]


def this_machine() -> Machine:
    """Describe where we are."""
    scheduler = find_spec("sim.scheduling.continuous")
    return Machine(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=_commit(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        busy_cores=round(os.getloadavg()[0], 1),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=version("numpy"),
        compiled=scheduler is not None and str(scheduler.origin).endswith((".so", ".pyd")),
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _commit() -> str:
    """Return the commit, with a plus where the simulator differs from it; outside a repository, unknown."""
    commit = _git("rev-parse", "--short", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}+" if _git("status", "--porcelain", "--", "sim", "workloads") else commit


def _git(*arguments: str) -> str:
    try:
        told = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    except OSError:
        return ""
    return told.stdout.strip()
