"""A scenario that takes no time, and how bad input to `kvcliff run` must be refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import kvcliff
from small_scenario import SMALL


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a scenario that takes no time."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs bad input with --out, checks how it was refused, and returns what was said."""

    def refused(*arguments: str | Path, out: Path | None = None) -> str:
        folder = tmp_path / "out" if out is None else out
        before = sorted(tmp_path.rglob("*"))
        result = kvcliff("run", *arguments, "--out", folder)
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        assert result.stderr.startswith("kvcliff: ")
        assert result.stderr.count("\n") == 1
        assert result.stderr.endswith("\n")
        assert "Traceback" not in result.stderr
        assert sorted(tmp_path.rglob("*")) == before
        return result.stderr

    return refused
