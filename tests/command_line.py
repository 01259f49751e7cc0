"""The command line in this process and in fresh ones, for tests of every room."""

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from sim.cli import main


def kvcliff(*arguments: str | Path) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter and wait for it."""
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )
