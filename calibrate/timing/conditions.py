"""Under what conditions a calibration ran: versions, driver, clocks, power. Noted in the file and beside GPU rows."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from time import monotonic

from calibrate.timing.machine import Machine

_GPU_FACTS = (
    "driver_version",
    "power.limit",
    "clocks.max.sm",
    "clocks.max.mem",
    "persistence_mode",
    "ecc.mode.current",
)
_GPU_NOW = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
_READ_EVERY_S = 10.0


def conditions(machine: Machine, command: str) -> dict[str, str]:
    """Return what to note at the top of the file, as text."""
    import torch

    noted = {
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command,
        "kvcliff": version("kvcliff"),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "system": platform.platform(),
        "last_level_cache_bytes": str(machine.cache_bytes),
    }
    if machine.kind == "cuda":
        noted["cuda"] = str(torch.version.cuda)
        noted |= _nvidia_smi((*_GPU_FACTS, *_GPU_NOW))
    else:
        noted["threads"] = str(torch.get_num_threads())
        noted["load_average"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return noted


def clock_note(machine: Machine, now: Callable[[], float] = monotonic) -> Callable[[], str]:
    """Return a function that says what clock and power the GPU runs at, read again every ten seconds at most."""
    if machine.kind != "cuda":
        return lambda: ""
    last_s, note = float("-inf"), ""

    def read() -> str:
        nonlocal last_s, note
        if now() - last_s >= _READ_EVERY_S:
            facts = _nvidia_smi(("clocks.sm", "power.draw"))
            last_s, note = now(), ", ".join(f"{name} {value}" for name, value in facts.items())
        return note

    return read


def _card() -> str:
    """Return the name nvidia-smi has for the GPU torch uses; places in its list differ where some are hidden."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    return "0" if uuid is None else f"GPU-{uuid}"


def _nvidia_smi(names: tuple[str, ...]) -> dict[str, str]:
    """Return what nvidia-smi says of the GPU in use; nothing where it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, f"--id={_card()}", f"--query-gpu={','.join(names)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 - no user input
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(names, (value.strip() for value in answer.stdout.split(",")), strict=False))
