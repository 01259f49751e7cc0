"""Where a command may write."""

import os
from pathlib import Path

from sim.errors import ScenarioError


def check_writable(flag: str, folder: Path) -> None:
    """Refuse a folder that cannot be written before anything is simulated for it."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ScenarioError(f"{flag}: {folder} cannot be written: {nearest} is a file")
    if not os.access(nearest, os.W_OK):
        raise ScenarioError(f"{flag}: {folder} cannot be written: no permission for {nearest}")
