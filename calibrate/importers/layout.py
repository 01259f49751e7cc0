"""How a publisher lays out a file, which layout a header is, and from there to the measurement table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from calibrate.csv_source import CsvSource, read_csv_source, shorten
from calibrate.importers.names import (
    dtype_name,
    gpu_from_path,
    gpu_name,
    model_from_path,
    model_name,
    tensor_parallel_from_path,
    variant_from_path,
)
from calibrate.row_checks import Reasons, parse_numbers
from calibrate.table_io import Table, checked_table
from sim.errors import MeasurementError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file comes from, and what the user says about it; what the user says wins over file and folders."""

    path: Path
    gpu: str | None = None
    model: str | None = None
    tensor_parallel: int | None = None

    def gpus(self, frame: pd.DataFrame, column: str | None = None) -> pd.Series:
        """Return the GPU of each row. Raises MeasurementError where nothing names one."""
        if self.gpu is None and column is not None and column in frame.columns:
            return frame[column].map(gpu_name)
        name = gpu_from_path(self.path) if self.gpu is None else gpu_name(self.gpu)
        if name is None:
            raise MeasurementError(f"{self.path}: neither the file nor a folder above it names the GPU; give --gpu")
        return pd.Series(name, index=frame.index)

    def models(self, frame: pd.DataFrame, column: str | None = None, *, needed: bool = False) -> pd.Series:
        """Return the model of each row, empty where unknown. Raises MeasurementError where it is needed."""
        if self.model is None and column is not None and column in frame.columns:
            return frame[column].map(model_name)
        name = model_from_path(self.path) if self.model is None else model_name(self.model)
        if name is None and needed:
            raise MeasurementError(f"{self.path}: neither the file nor a folder above it names the model; give --model")
        return pd.Series(name or "", index=frame.index)

    def tensor_parallels(self, frame: pd.DataFrame, column: str | None = None) -> pd.Series:
        """Return the GPUs that share a layer, 1 where nothing says."""
        if self.tensor_parallel is None and column is not None and column in frame.columns:
            return frame[column]
        return pd.Series(float(self.tensor_parallel or tensor_parallel_from_path(self.path) or 1), index=frame.index)

    def weight_dtype(self, default: str) -> str:
        """Return the number type of weights that a folder names, or the default."""
        return dtype_name(variant_from_path(self.path) or default)


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns by which a file is known, and what turns its rows into the table's.

    `text` and `numbers` must be in the header and filled in each row, `gaps` in the header only. `optional` are
    read as numbers where they are there, like all columns that end in `optional_ending`.
    """

    publisher: str
    name: str
    convert: Callable[[pd.DataFrame, Origin], pd.DataFrame]
    numbers: tuple[str, ...]
    text: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    optional_ending: str = ""
    file_names: tuple[str, ...] = ()  # of files without a header; `numbers` are then their columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns a header must have."""
        return (*self.text, *self.numbers, *self.gaps)

    def missing(self, header: Sequence[str]) -> list[str]:
        """Return the columns this header lacks."""
        return [name for name in self.columns if name not in header]

    def read(self, source: CsvSource, origin: Origin) -> Table:
        """Return the rows of a file in this layout as a table. Raises MeasurementError."""
        reasons = Reasons.of(source.frame)
        typed = source.frame.copy()
        for name in typed.columns:
            ending = bool(self.optional_ending) and name.endswith(self.optional_ending)
            if name in self.numbers or name in self.gaps or name in self.optional or ending:
                typed[name] = parse_numbers(typed[name], reasons, needed=name in self.numbers)
            else:
                typed[name] = typed[name].str.strip()
        for name in self.text:
            reasons.add((typed[name] == "").to_numpy(), f"{name} is empty")
        good, bad = reasons.split(typed)
        return checked_table(self.convert(good, origin), (*source.rejected, *bad), source.comments)


def read_with(layouts: Sequence[Layout], path: str | Path, **told: str | int | None) -> Table:
    """Read a file in the layout its header fits. Raises MeasurementError; `told` are fields of Origin."""
    source, layout = open_file(layouts, Path(path))
    return layout.read(source, Origin(Path(path), **told))  # type: ignore[arg-type]


def open_file(layouts: Sequence[Layout], path: Path) -> tuple[CsvSource, Layout]:
    """Return the text of a file and its layout. Raises MeasurementError for a layout nobody knows."""
    headerless = next((layout for layout in layouts if path.name in layout.file_names), None)
    if headerless is not None:
        return read_csv_source(path, headerless.numbers), headerless
    source = read_csv_source(path)
    return source, find_layout(layouts, path, list(source.frame.columns))


def find_layout(layouts: Sequence[Layout], path: Path, header: Sequence[str]) -> Layout:
    """Return the layout with most columns among those the header has in full.

    Raises MeasurementError naming the nearest layout and the columns missing for it.
    """
    named = [layout for layout in layouts if not layout.file_names]
    fitting = [layout for layout in named if not layout.missing(header)]
    if fitting:
        return max(fitting, key=lambda layout: len(layout.columns))
    nearest = min(named, key=lambda layout: len(layout.missing(header)) / len(layout.columns))
    lacking = nearest.missing(header)
    if len(lacking) == len(nearest.columns):
        first = shorten(", ".join(header))
        known = ", ".join(dict.fromkeys(layout.publisher for layout in layouts))
        raise MeasurementError(f"{path}: columns {first} belong to no known layout; known publishers: {known}")
    raise MeasurementError(f"{path}: nearest layout is {nearest.name}, but column {', '.join(lacking)} is missing")


def rows(frame: pd.DataFrame, **columns: object) -> pd.DataFrame:
    """Return table rows for the rows of `frame`: a column each, one value for all or a Series on its index."""
    return pd.DataFrame(columns, index=frame.index)


def column_or(frame: pd.DataFrame, name: str, default: object) -> pd.Series:
    """Return a column, or the default for each row where the file has none."""
    return frame[name] if name in frame.columns else pd.Series(default, index=frame.index)
