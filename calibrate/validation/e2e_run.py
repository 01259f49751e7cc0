"""What `kvcliff validate e2e` does: read, replay with progress on stderr, print or write."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from calibrate.validation.e2e_clients import Client, client_of, fit_clients
from calibrate.validation.e2e_errors import REQUIRED_SOURCES, TOGETHER, LimitRow, error_rows, limit_rows, median_rows
from calibrate.validation.e2e_experiments import EXPERIMENTS_FILE, Experiment, read_experiments
from calibrate.validation.e2e_page import points_of, write_page
from calibrate.validation.e2e_regimes import lowest_ttfts_s
from calibrate.validation.e2e_replay import Replayed, ReplayOptions, replay_all
from calibrate.validation.e2e_tables import (
    Table,
    clients_table,
    errors_table,
    limits_table,
    skipped_table,
    totals_table,
)
from sim.errors import MeasurementError, did_you_mean
from sim.steptime.pricing import AUTO, ROOFLINE, load_any


@dataclass(frozen=True, slots=True)
class E2eRequest:
    """The command's flags."""

    folder: Path
    profiles: Sequence[str] = ()
    only: Sequence[str] = ()
    limit: int | None = None
    warm_up: int = 0
    seeds: int = 2
    jobs: int = 1
    out: Path | None = None
    fit_clients: bool = False
    as_json: bool = False


def run_e2e(request: E2eRequest) -> list[str]:
    """Replay, print, write; return the limits that the required sources break together, or a single one alone.

    Raises a KvcliffError for a folder, a file, a profile or a prefix that is wrong.
    """
    everything = read_experiments(request.folder)
    chosen = _chosen(everything, request)
    for name in request.profiles:
        if name not in {AUTO, ROOFLINE}:
            load_any(name)  # a wrong name ends the command, it does not skip experiments
    options = ReplayOptions(
        folder=request.folder,
        profiles=(*request.profiles, AUTO, ROOFLINE),
        seeds=request.seeds,
        limit=request.limit,
        warm_up=request.warm_up,
        lowest_ttft_s=lowest_ttfts_s(everything),
    )
    if request.fit_clients:
        replayed = _replay(chosen, replace(options, clients={}), request.jobs)
        _print_clients(fit_clients(points_of(replayed)), as_json=request.as_json)
        return []
    replayed = _replay(chosen, options, request.jobs)
    points = points_of(replayed)
    limits = limit_rows(points)
    clients = [(source, client_of(source)) for source in dict.fromkeys(point.source for point in points)]
    written = write_page(replayed, clients, _command_line(request), request.out) if request.out is not None else []
    if request.as_json:
        click.echo(json.dumps(_json(replayed, limits, clients), allow_nan=False))
    else:
        _show(
            limits_table(limits),
            totals_table(points),
            errors_table(points),
            clients_table(clients),
            skipped_table(replayed),
        )
        for path in written:
            click.echo(f"wrote {path}")
    together = any(row.source == TOGETHER for row in limits)
    judged = (TOGETHER,) if together else REQUIRED_SOURCES
    return [
        f"{row.source}, {row.limit.regime} the knee: {row.limit.name} {row.median_error:.1%} > {row.limit.error:.0%}"
        for row in limits
        if row.source in judged and not row.held
    ]


def _chosen(experiments: Sequence[Experiment], request: E2eRequest) -> list[Experiment]:
    if not request.only:
        return list(experiments)
    for prefix in request.only:
        if not any(experiment.id.startswith(prefix) for experiment in experiments):
            known = [experiment.id for experiment in experiments] + [experiment.source for experiment in experiments]
            place = request.folder / EXPERIMENTS_FILE
            raise MeasurementError(
                f"--only: no experiment_id of {place} starts with {prefix!r}{did_you_mean(prefix, known)}"
            )
    return [experiment for experiment in experiments if experiment.id.startswith(tuple(request.only))]


def _replay(experiments: Sequence[Experiment], options: ReplayOptions, jobs: int) -> list[Replayed]:
    done = {one.experiment.id: one for one in _watched(replay_all(experiments, options, jobs), len(experiments))}
    return [done[experiment.id] for experiment in experiments]


def _watched(replayed: Iterator[Replayed], total: int) -> Iterator[Replayed]:
    """Show a progress bar on stderr where that is a terminal; elsewhere be silent."""
    if not sys.stderr.isatty():
        yield from replayed
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(replayed, "replaying", total, console=Console(stderr=True), transient=True)


def _show(*tables: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console(highlight=False, markup=False)
    console.width = max(console.width, 120)
    for table in tables:
        if not table.rows:
            continue
        shown = RichTable(*table.headings, title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def _print_clients(clients: Mapping[str, Client], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({source: client._asdict() for source, client in clients.items()}))
        return
    for source, client in clients.items():
        click.echo(f'    "{source}": Client({client.per_request_s:.6f}, "{client.derived}"),')


def _json(
    replayed: Sequence[Replayed], limits: Sequence[LimitRow], clients: Sequence[tuple[str, Client]]
) -> dict[str, Any]:
    points = points_of(replayed)
    return {
        "limits": [
            {
                "source": row.source,
                "regime": row.limit.regime,
                "metric": row.limit.name,
                "loads": row.loads,
                "median_abs_error": row.median_error,
                "median_error": row.bias,
                "limit": row.limit.error,
                "held": row.held,
            }
            for row in limits
        ],
        "medians": median_rows(points),
        "errors": error_rows(points),
        "points": [
            {
                "experiment": point.experiment,
                "source": point.source,
                "load": point.label,
                "regime": point.regime,
                "profile": point.profile,
                "measured": _finite(point.measured),
                "predicted": _finite(point.predicted),
                "notes": list(point.notes),
            }
            for point in points
        ],
        "clients": {source: client._asdict() for source, client in clients},
        "skipped": {one.experiment.id: one.skipped for one in replayed if one.skipped is not None},
    }


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def _command_line(request: E2eRequest) -> str:
    parts = ["kvcliff validate e2e", str(request.folder)]
    parts += [f"--profile {name}" for name in request.profiles] + [f"--only {prefix}" for prefix in request.only]
    parts += [f"--limit-requests {request.limit}"] if request.limit is not None else []
    parts += [f"--warm-up-requests {request.warm_up}"] if request.warm_up else []
    return " ".join([*parts, f"--seeds {request.seeds}", f"--out {request.out}"])
