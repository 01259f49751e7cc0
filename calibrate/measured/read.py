"""Results of load tests from files and folders, each recognised by what it holds, not by its name.

A folder of AIPerf or inference-perf is one test and is put together (folders.py); in others each file stands alone.
Scrapes of Prometheus that are given together are subtracted in the order given.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from calibrate.measured import (
    agent_sim,
    aiperf_csv,
    aiperf_requests,
    aiperf_summary,
    guidellm,
    guidellm_csv,
    inference_perf,
    prometheus_run,
    prometheus_text,
    sglang_bench,
    vllm_bench,
    vllm_log,
    vllm_multi_turn,
)
from calibrate.measured.csv_rows import csv_rows
from calibrate.measured.json_values import json_values
from calibrate.measured.refused import NoResultError, reason
from calibrate.measured.run import MeasuredRun
from sim.errors import MeasurementError
from workloads.errors import WorkloadError
from workloads.traces.text_lines import opened

Recognise = Callable[[dict[str, Any]], bool]
Read = Callable[[Path, str, dict[str, Any]], MeasuredRun]

OBJECTS: tuple[tuple[Recognise, Read], ...] = (
    (aiperf_summary.recognises, aiperf_summary.read),
    (inference_perf.recognises, inference_perf.read),
    (sglang_bench.recognises, sglang_bench.read),
    (vllm_bench.recognises, vllm_bench.read),
    (agent_sim.recognises, agent_sim.read),
)
KNOWN = (
    "vllm bench, its multi-turn benchmark, SGLang, GuideLLM, AIPerf, inference-perf, agent-sim, "
    "a scrape of Prometheus, a vLLM log"
)
_SNIFFED_BYTES = 2**16


def read_measured(paths: Sequence[Path]) -> list[MeasuredRun]:
    """Return the load points of files and folders, in their order.

    Raises MeasurementError with file and place for what cannot be read, and for what is no load test.
    """
    from calibrate.measured.folders import runs_of_folder

    found: list[MeasuredRun] = []
    scrapes: list[prometheus_run.Scrape] = []
    for path in paths:
        if path.is_dir():
            found += runs_of_folder(path)
        elif kind_of(path) == "prometheus":
            scrapes.append(prometheus_run.read_scrape(path))
        else:
            found += runs_of_file(path)
    found += prometheus_run.runs_of(scrapes) if scrapes else []
    return [_with_true_shares(run) for run in found]


def _with_true_shares(run: MeasuredRun) -> MeasuredRun:
    """Leave out shares that are above 1: hits counted otherwise than prompts, a usage in per cent."""
    wrong = [name for name in ("prefix_hit_rate", "kv_usage_peak") if run.metrics.get(name, 0.0) > 1]
    if not wrong:
        return run
    notes = [f"{name} is left out: {run.metrics[name]:.4g} is no share of 1" for name in wrong]
    metrics = {name: value for name, value in run.metrics.items() if name not in wrong}
    return replace(run, metrics=metrics, notes=(*run.notes, *notes))


def kind_of(path: Path) -> str:
    """Return json, csv, prometheus or log.

    Raises MeasurementError for a file that is none of them.
    """
    try:
        with opened(path) as file:
            text = file.read(_SNIFFED_BYTES).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None
    if not text.strip():
        raise MeasurementError(f"{path}: this file is empty")
    if "\0" in text:
        raise MeasurementError(f"{path}: this is no text but a binary file")
    first = text.lstrip().splitlines()[0]
    if re.match(r"\{|\[\s*($|[{\[\]\"])", first):
        return "json"
    if prometheus_text.looks_like(first):
        return "prometheus"
    cells = first.split(",")
    if aiperf_csv.recognises(cells) or guidellm_csv.recognises(cells):
        return "csv"
    if vllm_log.looks_like(text) or _mentions_engine(path):
        return "log"
    raise NoResultError(f"{path}: is no result of a load test that is known here: {KNOWN}")


def runs_of_file(path: Path) -> list[MeasuredRun]:
    """Return the load points of one file."""
    kind = kind_of(path)
    if kind == "json":
        return list(_of_json(path))
    if kind == "log":
        return [vllm_log.read(path)]
    if kind == "prometheus":
        return prometheus_run.runs_of([prometheus_run.read_scrape(path)])
    rows = list(csv_rows(path))
    return guidellm_csv.read(path, rows) if guidellm_csv.recognises(rows[0][1]) else [aiperf_csv.read(path, rows)]


def _mentions_engine(path: Path) -> bool:
    """Look for an engine's line behind the first piece: a server may say much before."""
    marks = [mark.encode() for mark in (vllm_log.MARK, *vllm_log.STARTS)]
    try:
        with opened(path) as file:
            return any(any(mark in line for mark in marks) for _, line in zip(range(100_000), file, strict=False))
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None


def _of_json(path: Path) -> Iterator[MeasuredRun]:
    """Yield the load points of a file of JSON; files of one object a request are one point."""
    values = json_values(path)
    first_place, first = next(values)
    rest = chain([(first_place, first)], values)
    if isinstance(first, dict) and aiperf_requests.recognises(first):
        yield aiperf_requests.read(path, [(place, _object(path, place, one)) for place, one in rest])
    elif isinstance(first, dict) and vllm_multi_turn.recognises(first):
        yield vllm_multi_turn.read(path, "", [_object(path, place, one) for place, one in rest])
    else:
        for place, value in rest:
            yield from _of_value(path, place, value)


def _of_value(path: Path, place: str, value: Any) -> Iterator[MeasuredRun]:
    if isinstance(value, dict) and isinstance(value.get("per_request"), list):
        value = value["per_request"]
    if isinstance(value, list):
        if not value:
            raise MeasurementError(f"{path}: {place or 'it'} is an empty list")
        items = [_object(path, f"{place} item {number}".strip(), one) for number, one in enumerate(value, 1)]
        if vllm_multi_turn.recognises(items[0]):
            yield vllm_multi_turn.read(path, place, items)
            return
        for number, one in enumerate(items, 1):
            yield from _of_object(path, f"{place} item {number}".strip(), one)
    else:
        yield from _of_object(path, place, _object(path, place, value))


def _of_object(path: Path, place: str, value: dict[str, Any]) -> Iterator[MeasuredRun]:
    if guidellm.recognises(value):
        yield from guidellm.read(path, place, value)
        return
    for recognises, read in OBJECTS:
        if recognises(value):
            yield read(path, place, value)
            return
    where = f"{path}: {place}" if place else str(path)
    known = reason(value)
    raise NoResultError(f"{where}: {known}" if known else f"{where}: is no result that is known here: {KNOWN}")


def _object(path: Path, place: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise MeasurementError(f"{path}: {place or 'it'}: {str(value)[:40]!r} is not an object")
