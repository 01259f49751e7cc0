"""ServeGen's clients: rates and burstiness by windows of 600 s, and token lengths by windows of 21,600 s.

A client is a pair: `chunk-N-trace.csv` without header (`start_s, rate, cv, pattern, arg1, arg2`; a window without
pattern is silent) and `chunk-N-dataset.json` (probabilities of lengths as Python dict literals inside strings). Either
file of a pair is that client; a folder is all clients in it, also in folders below. There is no content.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.errors import WorkloadError
from workloads.traces.csv_rows import BadCell, CsvRow, csv_rows
from workloads.traces.format import Format, Head
from workloads.traces.gap_windows import SHAPES, arrivals_s
from workloads.traces.json_rows import json_document
from workloads.traces.literal_tables import WeightTable, weight_table
from workloads.traces.reading import Reading, shown
from workloads.traces.request import MOST_TOKENS, TraceRequest

WINDOW_S, LENGTHS_WINDOW_S = 600.0, 21_600
MOST_RATE = 10_000.0  # requests a second of one client; the data's largest has 2,894
_COLUMNS = ("start_s", "rate", "cv", "pattern", "shape", "scale")
_FILE = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)")
_MOST_DATASET_BYTES = 64 * 2**20
_MOST_FILES = 10_000
_INPUTS = ("input_tokens", "text_tokens")
_MEDIA = ("image", "audio", "video")


class _Window(NamedTuple):
    start_s: float
    rate: float
    pattern: str
    shape: float


class _Lengths(NamedTuple):
    inputs: WeightTable
    media: tuple[tuple[WeightTable, WeightTable], ...]  # how many, and the tokens of each
    outputs: WeightTable


@dataclass(frozen=True, slots=True)
class _Client:
    name: str
    windows: dict[float, _Window]
    lengths: dict[int, _Lengths]  # by the start of their window


def recognises(head: Head) -> bool:
    """Tell by the file's name, or that of a copy by its columns or keys."""
    if _FILE.fullmatch(head.path.name):
        return True
    first = next(iter(head.first.values()), None) if head.keys and isinstance(head.first, dict) else None
    return isinstance(first, dict) and "output_tokens" in first


def recognises_folder(folder: Path) -> bool:
    """Tell by the names of the files in it, or below."""
    return any(_FILE.fullmatch(path.name) for path in _below(folder))


def read(reading: Reading) -> Iterator[TraceRequest]:
    """Draw the requests of all clients, window by window."""
    reading.note("lengths alone: the data tells no content, so no hits can be known")
    traces = _traces(reading.path)
    models = sorted({path.parent.name for path in traces})
    if len(models) > 1:
        reading.note(f"clients of {len(models)} models at once: {', '.join(models[:8])}")
    clients = [_client(reading, path) for path in traces]
    reading.note(f"{len(clients):,} clients, drawn with seed {reading.options.seed}; rates are those of each window")
    rng = np.random.default_rng(reading.options.seed)
    number = 0
    for start_s in sorted({start_s for client in clients for start_s in client.windows}):
        drawn = [
            _drawn(reading, client, client.windows[start_s], rng) for client in clients if start_s in client.windows
        ]
        at_s, inputs, outputs = (np.concatenate(columns) for columns in zip(*drawn, strict=True))
        order = np.argsort(at_s, kind="stable")
        for at, prompt, output in zip(at_s[order], inputs[order], outputs[order], strict=True):
            number += 1
            yield TraceRequest(number, int(prompt), int(output), float(at))


def _drawn(
    reading: Reading, client: _Client, window: _Window, rng: np.random.Generator
) -> tuple[NDArray[np.float64], ...]:
    """Return times, prompts and answers of one client's window."""
    expected = window.rate * WINDOW_S
    count = int(expected) + int(rng.random() < expected - int(expected))
    lengths = client.lengths.get(int(window.start_s // LENGTHS_WINDOW_S) * LENGTHS_WINDOW_S)
    if count and lengths is None:
        reading.note("windows with requests but without lengths are left out")
        count = 0
    if not count or lengths is None:
        return np.empty(0), np.empty(0), np.empty(0)
    at_s = window.start_s + arrivals_s(rng, window.pattern, window.shape, count, WINDOW_S)
    at_s = np.minimum(at_s, np.nextafter(window.start_s + WINDOW_S, 0.0))  # a sum may round up into the next window
    inputs = lengths.inputs.draw(rng, count)
    for how_many, tokens in lengths.media:
        each = how_many.draw(rng, count)
        inputs = inputs + each * tokens.draw(rng, count)  # all of a request's are as large as the first
    return at_s, np.clip(inputs, 1, MOST_TOKENS), np.maximum(lengths.outputs.draw(rng, count), 1)


def _traces(path: Path) -> list[Path]:
    """Return the trace files of a folder or of one client; raises WorkloadError if one half of a pair is missing."""
    if path.is_dir():
        found = [file for file in _below(path) if _FILE.fullmatch(file.name)]
        return sorted(found, key=lambda file: (str(file.parent), _number(file)))
    name = path.name.replace("dataset.json", "trace.csv")
    if not _FILE.fullmatch(path.name):
        raise WorkloadError(f"{path}: a client's files are named chunk-N-trace.csv and chunk-N-dataset.json")
    return [path.with_name(name)]


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files that may be a client's trace, down to those of a model of a category."""
    return islice(chain.from_iterable(map(folder.glob, ("*.csv", "*/*.csv", "*/*/*.csv"))), _MOST_FILES)


def _number(path: Path) -> int:
    found = _FILE.fullmatch(path.name)
    return int(found[1]) if found else 0


def _client(reading: Reading, trace: Path) -> _Client:
    dataset = trace.with_name(trace.name.replace("trace.csv", "dataset.json"))
    for path in (trace, dataset):
        if not path.is_file():
            raise WorkloadError(f"{path}: this half of the client's pair of files is missing")
    of_trace, of_dataset = Reading(trace, reading.options, reading.notes), Reading(dataset, reading.options)
    windows: dict[float, _Window] = {}
    for row in csv_rows(of_trace, _COLUMNS, header=_COLUMNS):
        try:
            window = _window(row)
        except BadCell as error:
            of_trace.bad(row.number, str(error))
            continue
        if window.start_s in windows:
            of_trace.bad(row.number, f"a second window at {window.start_s:g} s")
            continue
        if window.rate and window.pattern:
            windows[window.start_s] = window
    reading.bad_rows += of_trace.bad_rows
    reading.first_bad = reading.first_bad or of_trace.first_bad
    return _Client(trace.stem.removesuffix("-trace"), windows, _lengths(of_dataset))


def _window(row: CsvRow) -> _Window:
    start_s, pattern = row.seconds("start_s"), row.text("pattern")
    rate, shape = _number_in(row, "rate", 0, MOST_RATE), _number_in(row, "shape", 0, 1e9)
    if pattern and pattern not in SHAPES:
        raise BadCell(f"pattern {shown(pattern)} is not one of {', '.join(SHAPES)}")
    if pattern and rate and not shape:
        raise BadCell(f"shape {shown(row.text('shape'))} of {pattern} must be above 0")
    return _Window(start_s, rate, pattern, shape)


def _number_in(row: CsvRow, column: str, least: float, most: float) -> float:
    try:
        value = float(row.text(column) or 0)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise BadCell(f"{column} {shown(row.text(column))} must be a number from {least:g} to {most:,.15g}")
    return value


def _lengths(reading: Reading) -> dict[int, _Lengths]:
    windows = json_document(reading, dict[str, dict[str, str]], _MOST_DATASET_BYTES)
    found = {}
    for start, fields in windows.items():
        if not start.isascii() or not start.isdigit() or len(start) > 12:
            raise reading.error(f"window {shown(start)} must begin at a whole number of seconds")
        tables = partial(_table, reading, start, fields)
        inputs, outputs = next(filter(None, map(tables, _INPUTS)), None), tables("output_tokens")
        if inputs is None or outputs is None:
            continue
        pairs = [(tables(f"{kind}_count"), tables(f"{kind}_tokens")) for kind in _MEDIA]
        media = tuple((count, tokens) for count, tokens in pairs if count is not None and tokens is not None)
        found[int(start)] = _Lengths(inputs, media, outputs)
    return found


def _table(reading: Reading, start: str, fields: dict[str, str], key: str) -> WeightTable | None:
    if key not in fields:
        return None
    try:
        return weight_table(fields[key], MOST_TOKENS)
    except ValueError as error:
        raise reading.error(f"{start}.{key}: {error}") from None


FORMAT = Format("servegen", "ServeGen clients", recognises, read, recognises_folder=recognises_folder, drawn=True)
