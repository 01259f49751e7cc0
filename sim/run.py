"""Runs a scenario: every load level, every seed, with and without a KV limit; then the knee and its cause."""

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from sim.engine.record import Run
from sim.engine.simulation import simulate
from sim.results.cause import RELIEFS, Cause, with_unlimited_kv
from sim.results.knee import Knee, find_knee, slo_capacity
from sim.results.metrics import run_metrics
from sim.results.replicates import rests_on_few, summarise
from sim.scenario import load_levels, load_unit
from sim.setup import MAIN, Deployment

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """Everything a scenario's run found."""

    deployment: Deployment
    seeds: int
    points: list[dict[str, float]]  # one a load level; `sessions` is the level
    knee: Knee
    slo_sessions: int | None
    cause: Cause | None  # of the knee; else of the first broken SLO
    first_runs: Mapping[int, Run] = field(repr=False, default_factory=dict)  # seed 0, by level

    @property
    def load_unit(self) -> str:
        """What `sessions` counts."""
        return load_unit(self.deployment.scenario.load)


def run_scenario(
    deployment: Deployment,
    *,
    levels: Sequence[int] | None = None,
    seeds: int | None = None,
    explain: bool = True,
    progress: Progress = lambda _: None,
) -> Result:
    """Simulate all load levels with replicated seeds and find the knee; `progress` is told of each run.

    `explain` also refines the knee by bisection and looks for the cause.
    """
    scenario = deployment.scenario
    levels = load_levels(scenario.load) if levels is None else levels
    seeds = scenario.seeds if seeds is None else seeds
    points: list[dict[str, float]] = []
    ratios: dict[int, list[float]] = {}
    first_runs: dict[int, Run] = {}
    for level in levels:
        point, ratios[level], first_runs[level] = _point(deployment, level, seeds, progress)
        points.append(point)

    def ratios_at(level: int) -> list[float]:
        return _point(deployment, level, seeds, progress)[1]

    knee = find_knee(ratios, ratios_at if explain else None)
    met = [deployment.slo.met_by_point(point) for point in points]
    has_slo = deployment.slo.ttft_p99_s is not None or deployment.slo.tpot_p99_s is not None
    past_kv_knee = knee.sessions is not None
    where = knee.sessions if past_kv_knee else _first_broken(points, met) if has_slo else None
    cause = None
    if explain and where is not None:
        cause = _cause(deployment, where, seeds, points, progress, past_kv_knee=past_kv_knee)
    slo_sessions = slo_capacity(levels, met) if has_slo else None
    return Result(deployment, seeds, points, knee, slo_sessions, cause, first_runs)


def _first_broken(points: Sequence[dict[str, float]], met: Sequence[bool]) -> int | None:
    """Return the first load that answers but breaks the SLO; where nothing is answered there is no p99 to explain."""
    broken = (point for point, holds in zip(points, met, strict=True) if point["requests"] and not holds)
    return next((int(point["sessions"]) for point in broken), None)


def _point(
    deployment: Deployment, level: int, seeds: int, progress: Progress
) -> tuple[dict[str, float], list[float], Run]:
    load, slo = deployment.load_at(level), deployment.slo
    free = with_unlimited_kv(deployment.engine)
    metrics: list[dict[str, float]] = []
    ratios: list[float] = []
    first: Run | None = None
    for seed in range(seeds):
        run = simulate(deployment.engine, load, seed)
        first = first or run
        progress(f"{level} {load_unit(deployment.scenario.load)}, seed {seed}")
        metrics.append(run_metrics(run, MAIN, slo))
        unlimited_s = run_metrics(simulate(free, load, seed), MAIN, slo)["ttft_p99_s"]
        progress(f"{level} {load_unit(deployment.scenario.load)}, seed {seed}, unlimited KV")
        gc.collect()  # an engine and its processes refer to each other: their pools would pile up
        ratios.append(_ratio(metrics[-1]["ttft_p99_s"], unlimited_s))
        metrics[-1]["unlimited_kv_ttft_p99_s"] = unlimited_s
        metrics[-1]["knee_ratio"] = ratios[-1] if math.isfinite(ratios[-1]) else math.nan
    assert first is not None
    point = {"sessions": level} | summarise(metrics)
    point["ttft_p99_rests_on_few"] = rests_on_few(point)
    return point, ratios, first


def _ratio(limited_s: float, unlimited_s: float) -> float:
    """Return the knee ratio; where only the unlimited cache lets anything complete, it has no bound."""
    if math.isnan(limited_s) and not math.isnan(unlimited_s):
        return math.inf
    return limited_s / unlimited_s if unlimited_s else math.nan


def _cause(
    deployment: Deployment,
    level: int,
    seeds: int,
    points: Sequence[dict[str, float]],
    progress: Progress,
    *,
    past_kv_knee: bool,
) -> Cause:
    """Lift the limits one by one, over the same seeds; the point itself already knows the unlimited KV cache."""
    load, slo = deployment.load_at(level), deployment.slo
    point = next(point for point in points if point["sessions"] == level)
    relieved = {"KV cache": point["unlimited_kv_ttft_p99_s"]}
    for limit, lift in RELIEFS.items():
        if limit not in relieved:
            setup, p99_s = lift(deployment.engine), []
            for seed in range(seeds):
                p99_s.append(run_metrics(simulate(setup, load, seed), MAIN, slo)["ttft_p99_s"])
                progress(f"{level}, seed {seed}, without the limit of {limit}")
            known = [value for value in p99_s if not math.isnan(value)]
            relieved[limit] = fmean(known) if known else math.nan
    return Cause(level, point["ttft_p99_s"], relieved, past_kv_knee)


def turn_rows(result: Result) -> Iterator[dict[str, object]]:
    """Yield every turn of the first seed of every level as one flat row."""
    for level, run in result.first_runs.items():
        for record in run.records:
            yield {
                "sessions": level,
                "population": record.population,
                "session": record.session,
                "turn": record.turn,
                "outcome": record.outcome.value,
                "prompt_tokens": record.prompt_tokens,
                "output_tokens": record.output_tokens,
                "hit_tokens": record.hit_tokens,
                "reprefilled_tokens": record.reprefilled_tokens,
                "preemptions": record.preemptions,
                "evicted_by": record.evicted_by,
                "arrival_s": record.arrival_s,
                "queued_s": record.queued_s,
                "scheduled_s": record.scheduled_s,
                "first_token_s": record.first_token_s,
                "last_token_s": record.last_token_s,
            }
