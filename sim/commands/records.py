"""`kvcliff run --records FILE.parquet`: what the flag asks for, and files that are whole or absent."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sim.errors import ScenarioError
from sim.report.atomic import replacing
from sim.results.arrow_columns import pyarrow
from sim.results.parquet_file import RecordFiles

SUFFIX = ".parquet"


def check_records(path: Path, levels: Sequence[Sequence[int]]) -> None:
    """Refuse what cannot be recorded; `levels` are those of each simulated scenario.

    Raises ScenarioError unless it is one run, pyarrow is installed, and the file is a .parquet.
    """
    if path.suffix != SUFFIX:
        raise ScenarioError(f"--records {path}: the file must end in {SUFFIX}")
    if len(levels) > 1:
        raise ScenarioError(f"--records takes the records of one scenario, not of {len(levels)}")
    if len(levels[0]) > 1:
        loads = ", ".join(map(str, levels[0]))
        raise ScenarioError(f"--records takes the records of one load level, not of {loads}: choose one with --points")
    for file in record_paths(path):
        if file.is_dir():
            raise ScenarioError(f"--records: {file} cannot be written: it is a folder")
    pyarrow()


@contextmanager
def record_files(path: Path | None) -> Iterator[RecordFiles | None]:
    """Yield where to write turns and steps; both get their names when the block ends without an error."""
    if path is None:
        yield None
        return
    final = record_paths(path)
    with replacing(final.turns) as turns, replacing(final.steps) as steps:
        yield RecordFiles(turns, steps)


def record_paths(path: Path) -> RecordFiles:
    """Return the files that `--records` with this path leaves."""
    return RecordFiles(path, path.with_suffix(f".steps{SUFFIX}"))
