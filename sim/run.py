"""Runs scenarios: every load level, every seed, with and without a KV limit; then the knee and its cause.

What is to be found out about a deployment is an exploration: it asks for tasks, a round at a time, and learns what
they gave. Many explorations share each round, so that all cores, or a cluster, are busy however many there are.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeVar

from sim.errors import ScenarioError
from sim.results.cause import Cause, limits_of
from sim.results.knee import Knee, Ratios, find_knee, next_probe, slo_capacity
from sim.results.levels import Level, Metrics, level_of
from sim.results.parquet_file import RecordFiles
from sim.scenario import load_levels, load_unit
from sim.setup import Deployment
from sim.sweep.local import LocalRunner
from sim.sweep.runner import Job, Runner
from sim.sweep.task import Failure, Outcome, Task, TurnRow

Progress = Callable[[int, int], None]  # simulations done, and of how many so far known
Answers = Sequence[Outcome | Failure]
_T = TypeVar("_T")
Asking = Generator[Sequence[Task], Answers, _T]  # yields tasks, is sent their outcomes in the same order
KV_CACHE = "KV cache"


@dataclass(frozen=True, slots=True)
class Result:
    """Everything a scenario's run found."""

    deployment: Deployment
    seeds: int
    points: list[dict[str, float]]  # one a load level; `sessions` is the level
    knee: Knee
    slo_sessions: int | None
    cause: Cause | None  # of the knee; else of the first broken SLO
    turns: Mapping[int, list[TurnRow]] = field(repr=False, default_factory=dict)  # of seed 0, by level, if asked for
    failed: Mapping[Task, Failure] = field(default_factory=dict)  # levels of which no point is known, and why
    exported: Mapping[int, Mapping[str, str]] = field(
        repr=False, default_factory=dict
    )  # of seed 0, by level and format

    @property
    def load_unit(self) -> str:
        """What `sessions` counts."""
        return load_unit(self.deployment.scenario.load)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What to find out about a deployment; what is None goes by its scenario."""

    deployment: Deployment
    levels: Sequence[int] | None = None
    seeds: int | None = None
    explain: bool = True  # also refine the knee by bisection and look for the cause
    turns: bool = True  # also keep a row a turn of the first seed
    records: RecordFiles | None = None  # take the turns and steps of the first seed at the one level there is
    exports: tuple[str, ...] = ()  # formats in which the first seed of each level is wanted


def run_scenario(
    deployment: Deployment,
    *,
    levels: Sequence[int] | None = None,
    seeds: int | None = None,
    explain: bool = True,
    runner: Runner | None = None,
) -> Result:
    """Simulate all load levels with replicated seeds and find the knee; `runner` is this process if none is given.

    `explain` also refines the knee by bisection and looks for the cause. Raises RuntimeError if a simulation fails.
    """
    exploration = Exploration(deployment, levels, seeds, explain)
    return run_all([exploration], LocalRunner(1) if runner is None else runner, keep_going=False)[0]


def run_all(
    explorations: Sequence[Exploration],
    runner: Runner,
    progress: Progress = lambda _done, _of: None,
    *,
    keep_going: bool = True,
) -> list[Result]:
    """Return what each exploration found, in their order; a task that fails costs its own level only.

    Without `keep_going` the first failure raises: ScenarioError where the user can mend it, such as a full disk, else
    RuntimeError with the traceback of where it happened.
    """
    asking = {index: explore(one) for index, one in enumerate(explorations)}
    answers: dict[int, Answers | None] = dict.fromkeys(asking)
    results: dict[int, Result] = {}
    done = 0
    while asking:
        asked: dict[int, Sequence[Task]] = {}
        for index, generator in list(asking.items()):
            try:
                asked[index] = generator.send(answers[index])  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as stop:
                results[index] = stop.value
                del asking[index]
        jobs = [Job(explorations[index].deployment, task) for index, tasks in asked.items() for task in tasks]
        found: dict[int, Outcome | Failure] = {}
        for finished in runner(jobs) if jobs else ():
            found[finished.place] = outcome = finished.outcome
            if isinstance(outcome, Failure) and not keep_going:
                if not outcome.trace:
                    raise ScenarioError(outcome.error)
                raise RuntimeError(f"{jobs[finished.place].task}: {outcome.error}\n{outcome.trace}")
            progress(done + len(found), done + len(jobs))
        done += len(jobs)
        in_order = (found[index] for index in range(len(jobs)))
        answers = {index: [next(in_order) for _ in tasks] for index, tasks in asked.items()}
    return [results[index] for index in range(len(explorations))]


def explore(what: Exploration) -> Asking[Result]:
    """Ask for the grid, then for what refines its knee, then for what explains it."""
    deployment = what.deployment
    seeds = deployment.scenario.seeds if what.seeds is None else what.seeds
    levels = load_levels(deployment.scenario.load) if what.levels is None else what.levels
    grid = yield from _simulated(levels, seeds, turns=what.turns, records=what.records, exports=what.exports)
    tested: dict[int, Ratios] = {level: one.ratios for level, one in grid.known.items()}
    probed: dict[int, Ratios] = {}
    failed = dict(grid.failed)
    while what.explain and (count := next_probe(tested, probed)) is not None:
        probe = yield from _simulated([count], seeds)
        failed |= probe.failed
        if probe.failed:
            break
        probed[count] = probe.known[count].ratios
    knee = find_knee(tested, probed)
    points = [one.point for one in grid.known.values()]
    met = [deployment.slo.met_by_point(point) for point in points]
    has_slo = deployment.slo.ttft_p99_s is not None or deployment.slo.tpot_p99_s is not None
    past_kv_knee = knee.sessions is not None
    where = knee.sessions if past_kv_knee else _first_broken(points, met) if has_slo else None
    cause = None
    if what.explain and where is not None:
        relieved, lost = yield from _relieved(limits_of(deployment.engine), grid.known[where].point, where, seeds)
        cause = Cause(where, grid.known[where].point["ttft_p99_s"], relieved, past_kv_knee)
        failed |= lost
    slo_sessions = slo_capacity(list(grid.known), met) if has_slo else None
    return Result(deployment, seeds, points, knee, slo_sessions, cause, grid.turns, failed, grid.exported)


@dataclass(frozen=True, slots=True)
class _Grid:
    known: dict[int, Level]
    failed: dict[Task, Failure]
    turns: dict[int, list[TurnRow]]
    exported: dict[int, Mapping[str, str]]


def _simulated(
    levels: Sequence[int],
    seeds: int,
    *,
    turns: bool = False,
    records: RecordFiles | None = None,
    exports: tuple[str, ...] = (),
) -> Asking[_Grid]:
    """Ask for each level with each seed, with and without a KV limit; a level with a failure is not known."""

    def asked(level: int, seed: int, lifted: str | None) -> Task:
        shown = seed == 0 and lifted is None
        return Task(level, seed, lifted, turns and shown, records if shown else None, exports if shown else ())

    tasks = [asked(level, seed, lifted) for level in levels for seed in range(seeds) for lifted in (None, KV_CACHE)]
    outcomes = dict(zip(tasks, (yield tasks), strict=True))
    failed = {task: outcome for task, outcome in outcomes.items() if isinstance(outcome, Failure)}
    metrics: dict[tuple[int, str | None], list[Metrics]] = {}
    rows: dict[int, list[TurnRow]] = {}
    exported: dict[int, Mapping[str, str]] = {}
    for task, outcome in outcomes.items():
        if isinstance(outcome, Outcome):
            metrics.setdefault((task.level, task.lifted), []).append(outcome.metrics)
            rows |= {} if outcome.turns is None else {task.level: outcome.turns}
            exported |= {} if outcome.exported is None else {task.level: outcome.exported}
    lost = {task.level for task in failed}
    whole = [level for level in levels if level not in lost]
    known = {level: level_of(level, metrics[level, None], metrics[level, KV_CACHE]) for level in whole}
    return _Grid(known, failed, rows, exported)


def _relieved(
    limits: Sequence[str], point: Mapping[str, float], level: int, seeds: int
) -> Asking[tuple[dict[str, float], dict[Task, Failure]]]:
    """Ask for p99 TTFT without each limit, over the same seeds; the point itself already knows the unlimited KV."""
    tasks = [Task(level, seed, limit) for limit in limits if limit != KV_CACHE for seed in range(seeds)]
    outcomes = dict(zip(tasks, (yield tasks), strict=True))
    p99_s: dict[str, list[float]] = {limit: [] for limit in limits}
    for task, outcome in outcomes.items():
        if isinstance(outcome, Outcome) and not math.isnan(outcome.metrics["ttft_p99_s"]):
            p99_s[str(task.lifted)].append(outcome.metrics["ttft_p99_s"])
    relieved = {limit: fmean(values) if values else math.nan for limit, values in p99_s.items()}
    relieved[KV_CACHE] = point["unlimited_kv_ttft_p99_s"]
    return relieved, {task: outcome for task, outcome in outcomes.items() if isinstance(outcome, Failure)}


def _first_broken(points: Sequence[dict[str, float]], met: Sequence[bool]) -> int | None:
    """Return the first load that answers but breaks the SLO.

    None where nothing is answered, for there is no p99 to explain, or where refusals break it: they are the cause.
    """
    broken = (point for point, holds in zip(points, met, strict=True) if point["requests"] and not holds)
    first = next(broken, None)
    return None if first is None or first["refused"] else int(first["sessions"])


def turn_rows(result: Result) -> Iterator[TurnRow]:
    """Yield every turn of the first seed of every level as one flat row."""
    for rows in result.turns.values():
        yield from rows
