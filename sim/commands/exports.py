"""`kvcliff run --export FORMAT:FILE`: what the flag asks for, checked before anything is simulated, and its files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sim.commands.files import check_writable
from sim.errors import ScenarioError, one_of
from sim.export.formats import FORMATS
from sim.report.atomic import replacing
from sim.run import Result

LEVEL = "{level}"
_LONGEST_NAME = 200  # bytes


class Export(NamedTuple):
    """One flag."""

    format: str
    file: str  # as given: with {level} it is a file a level

    def path(self, level: int) -> Path:
        """Return the file of a level."""
        return Path(self.file.replace(LEVEL, str(level)))


def asked_exports(flags: Sequence[str], levels: Sequence[Sequence[int]], *, with_records: bool) -> tuple[Export, ...]:
    """Return what the flags ask for; `levels` are those of each scenario.

    Raises ScenarioError for an unknown format, a file that cannot be written or would hold what it cannot.
    """
    if len(levels) > 1:
        raise ScenarioError(f"--export takes the runs of one scenario, not of {len(levels)}")
    if with_records:
        raise ScenarioError("--export holds every turn in memory, which --records is there to avoid: give one of them")
    exports = tuple(_export(flag, levels[0]) for flag in flags)
    owners: dict[Path, str] = {}
    for export in exports:
        for path in _paths(export, levels[0]):
            if owners.setdefault(path.absolute(), export.format) != export.format:
                raise ScenarioError(f"--export: {path} is asked for in two formats")
    return exports


def _export(flag: str, levels: Sequence[int]) -> Export:
    name, colon, file = flag.partition(":")
    if not colon or not file:
        raise ScenarioError(f"--export {flag!r} must be FORMAT:FILE, such as vllm-bench:results.jsonl")
    if name not in FORMATS:
        raise ScenarioError(f"--export {flag}: {one_of(name, FORMATS)}")
    export = Export(name, file)
    if len(levels) > 1 and LEVEL not in file and not FORMATS[name].several_levels:
        raise ScenarioError(
            f"--export {flag}: {name} has a file for each of the {len(levels)} load levels: write {LEVEL} in its name, "
            f"or choose one with --points"
        )
    for path in _paths(export, levels):
        check_file("--export", path)
    return export


def check_file(flag: str, path: Path) -> None:
    """Refuse a file that cannot be written before anything is simulated for it."""
    check_name(flag, path)
    if path.is_dir():
        raise ScenarioError(f"{flag}: {path} cannot be written: it is a folder")
    if path.exists() and not path.is_file():
        raise ScenarioError(f"{flag}: {path} cannot be written: it is no regular file")
    check_writable(flag, path.parent)


def check_name(flag: str, path: Path) -> None:
    """Refuse a name that no file system takes, with what is added to it while the file is written."""
    if len(os.fsencode(path.name)) > _LONGEST_NAME or "\0" in str(path):
        raise ScenarioError(f"{flag}: {str(path)[:60]!r}… cannot be written: no file has such a name")


def _paths(export: Export, levels: Sequence[int]) -> list[Path]:
    return list(dict.fromkeys(export.path(level) for level in levels))


def write_exports(exports: Sequence[Export], result: Result) -> list[Path]:
    """Write the files, each whole or not at all; return their paths."""
    written: list[Path] = []
    for export in exports:
        for path in _paths(export, list(result.exported)):
            texts = [texts[export.format] for level, texts in result.exported.items() if export.path(level) == path]
            with replacing(path) as partial:
                partial.write_text("".join(texts), encoding="utf-8")
            written.append(path)
    return written
