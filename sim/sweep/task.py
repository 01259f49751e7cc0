"""One task is one simulation: a deployment at one load level with one seed, and maybe one limit lifted.

The seed alone decides the random numbers, so the same level and seed with and without a limit meet the same sessions.
A task gives the same outcome in whatever process it runs, after whatever other tasks.
"""

import gc
import traceback
from dataclasses import dataclass
from typing import Any

from sim.engine.record import Run
from sim.engine.simulation import simulate
from sim.errors import KvcliffError
from sim.results.cause import RELIEFS
from sim.results.measure import measure
from sim.results.metrics import run_metrics
from sim.results.parquet_file import RecordFiles
from sim.setup import MAIN, Deployment
from workloads.errors import WorkloadError

TurnRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What to simulate of a deployment."""

    level: int
    seed: int
    lifted: str | None = None  # a limit of RELIEFS
    turns: bool = False  # whether rows of single turns are wanted
    records: RecordFiles | None = None  # files that take all turns and steps
    exports: tuple[str, ...] = ()  # formats of sim/export in which the run is wanted


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task found: the metrics of the main sessions, and a row a turn and texts where they were asked for."""

    metrics: dict[str, float]
    turns: list[TurnRow] | None = None
    exported: dict[str, str] | None = None  # by format


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task found nothing: one line, and unless the user can mend it, the traceback for whoever does."""

    error: str
    trace: str = ""


def simulate_task(deployment: Deployment, task: Task) -> Outcome:
    """Run one simulation."""
    engine = deployment.engine if task.lifted is None else RELIEFS[task.lifted](deployment.engine)
    load, slo = deployment.load_at(task.level), deployment.slo
    rows: list[TurnRow] | None = None
    exported: dict[str, str] | None = None
    if task.turns or task.exports:
        run = simulate(engine, load, task.seed)
        metrics, rows = run_metrics(run, MAIN, slo), turn_rows(run, task.level) if task.turns else None
        exported = _exported(deployment, task, run) if task.exports else None
        del run
    else:
        metrics = measure(engine, load, task.seed, population=MAIN, slo=slo, files=task.records)
    # An engine and its processes refer to each other, so pools and step logs would pile up. All of a run is young, for
    # the collector is off while it lasts.
    gc.collect(0)
    return Outcome({name: float(value) for name, value in metrics.items()}, rows, exported)


def _exported(deployment: Deployment, task: Task, run: Run) -> dict[str, str]:
    from sim.export.facts import facts_of
    from sim.export.formats import FORMATS

    facts = facts_of(deployment, task.level, task.seed)
    return {name: FORMATS[name].write(run, facts) for name in task.exports}


def attempt(deployment: Deployment, task: Task) -> Outcome | Failure:
    """Run one simulation; what it raises is a failure of this task, not of the others."""
    try:
        return simulate_task(deployment, task)
    except (KvcliffError, WorkloadError) as error:
        return Failure(" ".join(str(error).split()))
    except OSError as error:  # a full disk, say
        return Failure(error.strerror or str(error))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the rest of a sweep goes on
        return Failure(" ".join(f"{type(error).__name__}: {error}".split()), traceback.format_exc())


def turn_rows(run: Run, level: int) -> list[TurnRow]:
    """Return every turn of a run as one flat row; times are seconds from the start."""
    return [
        {
            "sessions": level,
            "population": record.population,
            "session": record.session,
            "turn": record.turn,
            "depth": record.depth,
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
        for record in run.records
    ]
