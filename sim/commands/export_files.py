"""The files of `kvcliff export`, each whole or not at all."""

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sim.commands.exports import check_file, check_name
from sim.commands.files import check_writable
from sim.errors import ScenarioError
from sim.report.atomic import replacing

LINES = ".jsonl"


def check_output(path: Path, *, folder: bool) -> None:
    """Refuse a place that cannot be written, before anything is read or simulated for it."""
    if folder:
        check_name("-o", path)
        check_writable("-o", path)
        if path.exists() and any(path.iterdir()):
            raise ScenarioError(f"-o {path}: the folder is not empty, and all files in it are read as one trace")
    else:
        check_file("-o", path)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON Lines, a row at a time."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(_line(row) for row in rows)


def write_text(path: Path, text: str) -> None:
    """Write a file."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_folder(folder: Path, sessions: Iterable[Mapping[str, Any]]) -> list[Path]:
    """Write a file a session, none before all are; return their paths."""
    with ExitStack() as stack:
        paths: list[Path] = []
        for number, session in enumerate(sessions, 1):
            path = folder / f"trace_{number:04d}.json"
            partial = stack.enter_context(replacing(path))
            partial.write_text(_line(session), encoding="utf-8")
            paths.append(path)
    return paths


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n"
