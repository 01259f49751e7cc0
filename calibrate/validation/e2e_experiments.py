"""What a serving experiment's rows state: `e2e_experiments.csv` has one row an experiment, `e2e_points.csv` one a load.

Columns are those of the public measurements; cells may be empty. Times become seconds, percentages shares.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sim.errors import MeasurementError, did_you_mean

EXPERIMENTS_FILE = "e2e_experiments.csv"
POINTS_FILE = "e2e_points.csv"

_NEEDED = ("experiment_id", "gpu", "model", "engine_version", "arrival")
_POINT_NEEDED = ("experiment_id", "load_kind", "load_value")
_RENAMED = {  # column -> metric and factor; `<metric>_ms` becomes `<metric>_s` by itself
    "request_throughput_rps": ("requests_per_s", 1.0),
    "output_throughput_tok_s": ("output_tokens_per_s", 1.0),
    "kv_usage_max_pct": ("kv_usage_peak", 0.01),
    "prefix_hit_rate_pct": ("prefix_hit_rate", 0.01),
    "running_max": ("running_peak", 1.0),
    "preemptions": ("preemptions", 1.0),
}
_SOURCES = ("isim_train", "isim_s2r", "do_h200")  # names that hold an underscore themselves


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One load level and what was measured there, by metric."""

    kind: str
    value: float
    input_tokens: float | None = None
    output_tokens: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A deployment and the loads it was put under, as stated; None where nothing is."""

    id: str
    gpu: str
    model: str
    weight_dtype: str
    kv_cache_dtype: str
    engine: str
    version: tuple[int, ...]
    arrival: str
    prefix_sharing: str
    client: str
    notes: str
    num_gpus: int = 1
    replicas: int = 1
    tensor_parallel: int = 1
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    prefix_caching: bool = True
    chunked_prefill: bool = True
    enforce_eager: bool = False
    kv_cache_tokens: int | None = None
    block_size: int = 16
    input_tokens: float | None = None
    output_tokens: float | None = None
    points: tuple[LoadPoint, ...] = ()

    @property
    def source(self) -> str:
        """The campaign it belongs to: what one client and one machine measured."""
        known = next((name for name in _SOURCES if self.id.startswith(name)), None)
        return known or self.id.split("_", 1)[0]

    @property
    def data_parallel(self) -> int:
        """Engines that share one endpoint, each with its own scheduler and cache."""
        stated = re.search(r"\bDP(\d+)\b", self.notes)
        return int(stated[1]) if stated else 1

    @property
    def one_server(self) -> bool:
        """Whether all loads met one server, so that a later one finds the cache an earlier one left."""
        return "one server session" in self.notes


def read_experiments(folder: Path) -> list[Experiment]:
    """Return all experiments of a folder with their load points, in the file's order.

    Raises MeasurementError if the folder or a file is missing, a column is, or a number is none.
    """
    if not folder.is_dir():
        raise MeasurementError(f"{folder}: there is no such folder")
    points: dict[str, list[LoadPoint]] = {}
    for row in _rows(folder / POINTS_FILE, _POINT_NEEDED):
        points.setdefault(row.text("experiment_id"), []).append(_point(row))
    experiments = [_experiment(row, points) for row in _rows(folder / EXPERIMENTS_FILE, _NEEDED)]
    known = {experiment.id for experiment in experiments}
    for name in points:
        if name not in known:
            hint = did_you_mean(name, known)
            raise MeasurementError(f"{folder / POINTS_FILE}: experiment_id {name!r} is not in {EXPERIMENTS_FILE}{hint}")
    return experiments


class _Row:
    """One line of a file, whose cells say where they stand when they are wrong."""

    def __init__(self, cells: Mapping[str, str], place: str) -> None:
        self.cells = cells
        self.place = place

    def text(self, column: str) -> str:
        return (self.cells.get(column) or "").strip()

    def number(self, column: str) -> float | None:
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            raise MeasurementError(f"{self.place}: {column} {text!r} must be a finite number of at least 0")
        return value

    def count(self, column: str) -> int | None:
        value = self.number(column)
        return None if value is None else round(value)

    def flag(self, column: str, *, default: bool) -> bool:
        text = self.text(column).lower()
        return default if not text.startswith(("on", "off", "yes", "no")) else text.startswith(("on", "yes"))


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or ()
            for name in needed:
                if name not in columns:
                    raise MeasurementError(f"{path}:1: column {name!r} is missing{did_you_mean(name, columns)}")
            for cells in reader:
                yield _Row(cells, f"{path}:{reader.line_num}")
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MeasurementError(f"{path}: is not UTF-8 text") from None


def _point(row: _Row) -> LoadPoint:
    value = row.number("load_value")
    if value is None:
        raise MeasurementError(f"{row.place}: load_value is empty")
    measured: dict[str, float] = {}
    for column in row.cells:
        metric, factor = _RENAMED.get(column, (column.removesuffix("_ms") + "_s", 0.001))
        if column in _RENAMED or (column or "").endswith("_ms"):
            number = row.number(column)
            if number is not None:
                measured[metric] = number * factor
    return LoadPoint(
        kind=row.text("load_kind"),
        value=value,
        input_tokens=row.number("input_tokens_mean"),
        output_tokens=row.number("output_tokens_mean"),
        requests=row.count("requests"),
        duration_s=row.number("duration_s"),
        measured=measured,
    )


def _experiment(row: _Row, points: Mapping[str, list[LoadPoint]]) -> Experiment:
    name = row.text("experiment_id")
    return Experiment(
        id=name,
        gpu=row.text("gpu"),
        model=row.text("model"),
        weight_dtype=row.text("weight_dtype"),
        kv_cache_dtype=row.text("kv_cache_dtype"),
        engine=row.text("engine"),
        version=_version(row.text("engine_version")),
        arrival=row.text("arrival"),
        prefix_sharing=row.text("prefix_sharing"),
        client=row.text("client"),
        notes=row.text("notes"),
        num_gpus=row.count("num_gpus") or 1,
        replicas=row.count("replicas") or 1,
        tensor_parallel=row.count("tensor_parallel") or 1,
        max_num_seqs=row.count("max_num_seqs"),
        max_num_batched_tokens=row.count("max_num_batched_tokens"),
        max_model_len=row.count("max_model_len"),
        gpu_memory_utilization=row.number("gpu_memory_utilization"),
        prefix_caching=row.flag("prefix_caching", default=True),
        chunked_prefill=row.flag("chunked_prefill", default=True),
        enforce_eager=row.flag("enforce_eager", default=False),
        kv_cache_tokens=row.count("kv_cache_tokens"),
        block_size=row.count("block_size") or 16,
        input_tokens=row.number("input_tokens_mean"),
        output_tokens=row.number("output_tokens_mean"),
        points=tuple(points.get(name, ())),
    )


def _version(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
