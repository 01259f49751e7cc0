"""Replays experiments through the simulator, several at a time, and sets both sides of each load level together."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import active_children
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from statistics import fmean

from calibrate.validation.e2e_clients import CLIENTS, Client, client_of
from calibrate.validation.e2e_deployment import Deployed, deployment_of
from calibrate.validation.e2e_errors import ReplayedPoint
from calibrate.validation.e2e_experiments import Experiment, LoadPoint
from calibrate.validation.e2e_metrics import run_metrics
from calibrate.validation.e2e_names import catalog_gpu, catalog_model
from calibrate.validation.e2e_regimes import deployment_key, regime
from calibrate.validation.e2e_traffic import Session, Stage, assumptions, is_random, sessions_of
from sim.engine.recorded import simulate_recorded
from sim.errors import KvcliffError
from sim.steptime.pricing import ROOFLINE

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay."""

    folder: Path
    profiles: Sequence[str] = (ROOFLINE,)
    seeds: int = 2  # of experiments whose arrivals are not recorded
    limit: int | None = None  # requests a load level
    warm_up: int = 0  # first requests of a recorded run that count on neither side
    clients: Mapping[str, Client] = field(default_factory=lambda: CLIENTS)
    lowest_ttft_s: Mapping[tuple[object, ...], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One experiment's load levels, or why there are none."""

    experiment: Experiment
    points: tuple[ReplayedPoint, ...] = ()
    skipped: str | None = None


def replay_all(experiments: Sequence[Experiment], options: ReplayOptions, jobs: int = 1) -> Iterator[Replayed]:
    """Yield each experiment when it is done."""
    if jobs <= 1 or len(experiments) <= 1:
        yield from (replay(experiment, options) for experiment in experiments)
        return
    with ProcessPoolExecutor(jobs, initializer=signal, initargs=(SIGINT, SIG_IGN)) as pool:
        try:
            for done in as_completed([pool.submit(replay, experiment, options) for experiment in experiments]):
                yield done.result()
        except KeyboardInterrupt:  # ours alone, and we do not wait for theirs to end
            for worker in active_children():
                worker.terminate()
            raise


def replay(experiment: Experiment, options: ReplayOptions) -> Replayed:
    """Return the experiment replayed, or skipped with the reason: nothing wrong with one stops the others."""
    try:
        deployed = deployment_of(experiment, options.profiles)
        seeds = options.seeds if is_random(experiment, options.folder) else 1
        by_seed = [
            sessions_of(experiment, options.folder, seed, options.limit, options.warm_up) for seed in range(seeds)
        ]
    except KvcliffError as error:
        return Replayed(experiment, skipped=str(error).partition("; known: ")[0])
    stages = [stage for session in by_seed[0] for stage in session]
    found = [_simulated(deployed, sessions, client_of(experiment.source, options.clients)) for sessions in by_seed]
    points = tuple(
        _point(experiment, point, stage, _mean(metrics), deployed=deployed, options=options)
        for point, stage, *metrics in zip(experiment.points, stages, *found, strict=True)
    )
    return Replayed(experiment, points)


def _simulated(deployed: Deployed, sessions: Sequence[Session], client: Client) -> list[Metrics]:
    metrics: list[Metrics] = []
    for session in sessions:
        loads = [replace(stage.load, per_request_s=client.per_request_s) for stage in session]
        for stage, run in zip(session, simulate_recorded(deployed.setup, loads, deployed.engines), strict=True):
            counted = replace(run, records=run.records[stage.warm_up :])
            metrics.append(run_metrics(counted, trimmed=stage.trimmed))
    return metrics


def _mean(replicates: Sequence[Metrics]) -> Metrics:
    return {key: fmean(metrics[key] for metrics in replicates if key in metrics) for key in replicates[0]}


def _point(
    experiment: Experiment,
    point: LoadPoint,
    stage: Stage,
    predicted: Metrics,
    *,
    deployed: Deployed,
    options: ReplayOptions,
) -> ReplayedPoint:
    where = regime(
        stage.measured,
        predicted,
        requests=stage.requests,
        span_s=stage.span_s,
        lowest_ttft_s=options.lowest_ttft_s.get(deployment_key(experiment, point)),
        seats=deployed.setup.scheduler.max_num_seqs * deployed.engines,
    )
    return ReplayedPoint(
        experiment=experiment.id,
        source=experiment.source,
        gpu=catalog_gpu(experiment.gpu).name,
        model=catalog_model(experiment.model).name,
        profile=deployed.profile,
        label=stage.label,
        load=stage.value,
        regime=where,
        measured=stage.measured,
        predicted=predicted,
        notes=(*deployed.notes, *assumptions(experiment, options.folder)),
    )
