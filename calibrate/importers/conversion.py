"""Files of any known layout, and tables of our own, as one table without the rows that cannot be true."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from calibrate.csv_source import Rejected, read_csv_source
from calibrate.importers import aiconfigurator, helix, llmservingsim, splitwise, vidur, vllm_steps
from calibrate.importers.layout import Layout, Origin, open_file
from calibrate.light_check import WRONG_UNIT, check_light_speed
from calibrate.measurements import REQUIRED
from calibrate.table_io import Table, table_from_source
from sim.units import seconds

PUBLISHERS: dict[str, tuple[Layout, ...]] = {
    "aiconfigurator": aiconfigurator.LAYOUTS,
    "helix": helix.LAYOUTS,
    "llmservingsim": llmservingsim.LAYOUTS,
    "splitwise": splitwise.LAYOUTS,
    "vidur": vidur.LAYOUTS,
    "vllm_steps": vllm_steps.LAYOUTS,
}
OWN = "measurement table"


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of one file. `counts` has a row per operation and GPU: rows, too_fast, slow."""

    path: Path
    layout: str
    table: Table
    counts: pd.DataFrame


def convert_files(paths: Sequence[Path], publisher: str | None = None, **told: str | int | None) -> Iterator[Converted]:
    """Convert files one by one; `told` are fields of Origin that the user gave.

    Raises MeasurementError for a file that is malformed or in no known layout.
    """
    for path in paths:
        layout, table = _read(path, publisher, told)
        yield _without_impossible(path, layout, table)


def _read(path: Path, publisher: str | None, told: dict[str, str | int | None]) -> tuple[str, Table]:
    layouts = [layout for name, several in PUBLISHERS.items() if publisher in {None, name} for layout in several]
    if publisher is None and not any(path.name in layout.file_names for layout in layouts):
        source = read_csv_source(path)
        if set(REQUIRED) <= set(source.frame.columns):
            return OWN, table_from_source(source)
    source, layout = open_file(layouts, path)
    return layout.name, layout.read(source, Origin(path, **told))  # type: ignore[arg-type]  # names fit by construction


def _without_impossible(path: Path, layout: str, table: Table) -> Converted:
    frame = table.frame
    light = check_light_speed(frame)
    wrong = light.too_fast | light.too_slow
    checked = frame[["operation", "gpu"]].assign(rows=~wrong, too_fast=light.too_fast, slow=light.slow & ~wrong)
    counts = checked.groupby(["operation", "gpu"])[["rows", "too_fast", "slow"]].sum().astype(int).reset_index()
    impossible = []
    for at in np.flatnonzero(wrong):
        took = f"{frame['operation'].iloc[at]} of {seconds(frame['time_s'].iloc[at])}"
        needs = f"{frame['gpu'].iloc[at]} needs {seconds(light.bound_s[at])}"
        why = "faster than light" if light.too_fast[at] else f"over {WRONG_UNIT:g} times too slow (wrong unit?)"
        impossible.append(Rejected(int(frame.index[at]), f"{took} is {why}: {needs}"))
    rejected = tuple(sorted((*table.rejected, *impossible), key=lambda row: row.line))
    return Converted(path, layout, Table(frame[~wrong], rejected, table.comments), counts)


def counts_of(converted: Sequence[Converted]) -> pd.DataFrame:
    """Return rows, too_fast and slow of all files together, a row per operation and GPU."""
    return pd.concat([one.counts for one in converted]).groupby(["operation", "gpu"]).sum().reset_index()
