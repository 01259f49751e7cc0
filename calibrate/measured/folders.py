"""A folder of results: one test put together where a tool writes several files of it, else each file for itself."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from calibrate.measured import aiperf_requests, aiperf_summary, prometheus_run
from calibrate.measured.aiperf_server import server_metrics as aiperf_server_metrics
from calibrate.measured.inference_perf_server import server_metrics
from calibrate.measured.json_values import json_values
from calibrate.measured.read import kind_of, runs_of_file
from calibrate.measured.refused import NoResultError
from calibrate.measured.run import MeasuredLoad, MeasuredRun
from calibrate.measured.statistics import differences
from sim.errors import MeasurementError
from workloads.errors import WorkloadError
from workloads.traces.text_lines import document

MOST_FILES = 10_000
_BESIDE = (".md", ".yaml", ".yml", ".txt", ".html", ".png", ".svg", ".pdf", ".parquet", ".xlsx", ".py", ".sh")
_AIPERF = "profile_export"  # what its files are called unless told otherwise


def runs_of_folder(folder: Path) -> list[MeasuredRun]:
    """Return the load points of a folder and those below it.

    Files that are no results by their ending are passed over. Raises MeasurementError for a result that cannot be
    read, and where nothing in the folder is one.
    """
    files = [path for path in sorted(folder.rglob("*"), key=_order) if path.is_file() and path.name[:1] != "."]
    if len(files) > MOST_FILES:
        raise MeasurementError(f"{folder}: {len(files):,} files, more than any test writes: name the results")
    found: list[MeasuredRun] = []
    refused: NoResultError | None = None
    for below in dict.fromkeys(path.parent for path in files):
        try:
            found += _runs_in(below, [path for path in files if path.parent == below])
        except NoResultError as error:
            refused = refused or error
    if not found and refused:
        raise refused
    if not found:
        raise MeasurementError(f"{folder}: holds no result of a load test")
    return found


def _order(path: Path) -> tuple[Any, ...]:
    """Sort names with numbers in them by the numbers."""
    return tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", str(path))
    )


def _runs_in(folder: Path, files: Sequence[Path]) -> list[MeasuredRun]:
    aiperf = [path for path in files if path.name.startswith(_AIPERF)]
    if any(path.suffix == ".json" for path in aiperf) or any(path.name == "profile_export.jsonl" for path in aiperf):
        return [_aiperf(folder, files)]
    stages = [path for path in files if path.name.endswith("_lifecycle_metrics.json")]
    if stages:
        return _inference_perf(folder, stages)
    return _each(files)


def _each(files: Sequence[Path]) -> list[MeasuredRun]:
    """Return what each file holds; files that are no results are named in a note."""
    found: list[MeasuredRun] = []
    scrapes, left_out = [], []
    for path in files:
        if path.suffix.lower() in _BESIDE:
            continue
        try:
            if kind_of(path) == "prometheus":
                scrapes.append(prometheus_run.read_scrape(path))
            else:
                found += runs_of_file(path)
        except NoResultError as error:
            left_out.append(error)
    found += prometheus_run.runs_of(scrapes) if scrapes else []
    if left_out and not found:
        raise left_out[0]
    if left_out:
        note = f"left out of this folder: {left_out[0]}" + (f", and {len(left_out) - 1} more" if left_out[1:] else "")
        found[0] = replace(found[0], notes=(*found[0].notes, note))
    return found


def _aiperf(folder: Path, files: Sequence[Path]) -> MeasuredRun:
    """Return one run of a summary, its requests, and what the server said, as far as they are there."""
    summary: MeasuredRun | None = None
    requests: MeasuredRun | None = None
    server: dict[str, float] = {}
    notes: list[str] = []
    for path in files:
        if path.suffix not in {".json", ".jsonl"}:
            continue
        if path.name == "server_metrics_export.json":
            server, notes = aiperf_server_metrics(path)
        elif path.name.startswith(_AIPERF) and (
            path.suffix == ".jsonl" or "aiperf" in path.name or "genai" in path.name
        ):
            if path.name.endswith("_raw.jsonl"):
                continue  # payloads
            try:
                runs = runs_of_file(path)
            except NoResultError:
                continue  # slices of time, settings
            requests = next((run for run in runs if run.format == aiperf_requests.NAME), requests)
            summary = next((run for run in runs if run.format == aiperf_summary.NAME), summary)
    if summary is None and requests is None:
        return runs_of_file(next(path for path in files if path.name.startswith(_AIPERF)))[0]
    merged = _merged(summary, requests) if summary and requests else summary or requests
    assert merged is not None
    return replace(merged, file=folder, metrics={**merged.metrics, **server}, notes=(*merged.notes, *notes))


def _merged(summary: MeasuredRun, requests: MeasuredRun) -> MeasuredRun:
    ours, stated = dict(requests.metrics), dict(summary.metrics)
    latencies = {key: one for key, one in stated.items() if key.startswith(("ttft", "tpot", "itl", "e2e"))}
    spreads = {key: one for key, one in ours.items() if not key.endswith("_per_s")}
    load = replace(summary.load, sessions=summary.load.sessions or requests.load.sessions)
    return replace(
        summary,
        load=load,
        failed=max(summary.failed or 0, requests.failed or 0),
        metrics={**ours, **stated, **spreads},
        requests=requests.requests,
        notes=tuple(dict.fromkeys([*summary.notes, *requests.notes, *differences(ours, latencies)])),
    )


def _inference_perf(folder: Path, stages: Sequence[Path]) -> list[MeasuredRun]:
    """Return each stage with what the server said of it; the summary only where there is no stage."""
    single = [path for path in stages if path.name.startswith("stage_")]
    config = _config(folder / "config.yaml")
    found = []
    for path in single or [path for path in stages if path.name.startswith("summary")] or stages:
        (run,) = runs_of_file(path)
        server, notes = _server_of(path)
        found.append(_configured(replace(run, metrics={**run.metrics, **server}, notes=(*run.notes, *notes)), config))
    return found


def _server_of(stage: Path) -> tuple[dict[str, float], list[str]]:
    path = stage.with_name(stage.name.replace("_lifecycle_metrics", "_prometheus_metrics"))
    if not path.is_file():
        return {}, []
    _, value = next(json_values(path))
    if not isinstance(value, dict):
        return {}, [f"{path.name} holds no metrics of the server"]
    return server_metrics(path, value)


def _config(path: Path) -> dict[str, Any]:
    """Return the settings beside the stages; empty where there are none."""
    if not path.is_file():
        return {}
    try:
        value = yaml.safe_load(document(path, 2**20))
    except WorkloadError as error:
        raise MeasurementError(str(error)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise MeasurementError(f"{path}: is no YAML: {str(error).splitlines()[0]}") from None
    return value if isinstance(value, dict) else {}


def _configured(run: MeasuredRun, config: dict[str, Any]) -> MeasuredRun:
    def section(name: str) -> dict[str, Any]:
        value = config.get(name)
        return value if isinstance(value, dict) else {}

    load, model = section("load"), section("server").get("model_name")
    kind = load.get("type")
    workers, each = load.get("num_workers"), load.get("worker_max_concurrency")
    limit = workers * each if isinstance(workers, int) and isinstance(each, int) else None
    settings = dict(run.settings)
    for name, value in (("load", kind), ("data", section("data").get("type")), ("client_limit", limit)):
        if value is not None:
            settings[name] = str(value)
    burstiness = {"constant": float("inf"), "poisson": 1.0}.get(str(kind))
    measured = MeasuredLoad(
        run.load.concurrency or limit, run.load.rate_per_s, burstiness, run.load.requests, run.load.sessions
    )
    return replace(run, load=measured, model=model if isinstance(model, str) else run.model, settings=settings)
