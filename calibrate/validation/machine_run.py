"""Runs the proof: a small transformer and its operations, timed by turns; then one predicted from the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from calibrate.timing.grid import BLOCK_SIZE
from calibrate.timing.layer_shape import layer_shape
from calibrate.timing.machine import Machine, open_machine  # before torch, whose threads it pins
from calibrate.timing.outcome import Outcome, Row
from calibrate.timing.points import Point
from calibrate.timing.small_transformer_batch import StepBatch
from calibrate.timing.summary import skipped_lines
from calibrate.validation.machine_load import watch_others
from calibrate.validation.machine_plan import MODEL, STEPS, blocks_needed, operation_points, step_plan
from calibrate.validation.machine_prediction import composed, fit_machine, sum_of_nearest_s
from calibrate.validation.machine_proof import Proof, ProvenStep
from calibrate.validation.machine_rounds import Apparatus, Measured, measure_in_rounds
from sim.catalog import Model
from sim.errors import CalibrationError


@dataclass(frozen=True, slots=True)
class Plan:
    """What to prove, and how long to take. `command` is noted in the table of operations."""

    device: str
    dtype: str
    budget_s: float
    threads: int | None = None
    seed: int = 0
    model: Model = MODEL
    steps: Sequence[StepBatch] | None = None  # drawn where None
    points: Sequence[Point] | None = None  # those of the plan where None
    command: str = "kvcliff validate machine"


def prove(plan: Plan, out: Path | None, on_progress: Callable[[int, float], None]) -> Proof:
    """Measure and predict; the table of operations goes to `out` as operations.csv.

    Raises CalibrationError without torch, the device, enough memory or a place to write, MeasurementError where the
    operations do not suffice for a fit.
    """
    if out is not None:
        _make(out)
    machine = open_machine(plan.device, plan.dtype, plan.threads)
    noted, others = _conditions(machine, plan.command), watch_others()
    batches = step_plan(STEPS, plan.seed) if plan.steps is None else plan.steps
    try:
        measured = _measure(plan, machine, batches, on_progress)
    except (MemoryError, RuntimeError) as error:
        raise _out_of_memory(error) from error
    busy_cpus = others()
    with TemporaryDirectory() as scratch:
        table = (Path(scratch) if out is None else out) / "operations.csv"
        _write(table, measured.operations.rows, noted)
        profile = fit_machine(table)
    steps = composed(profile, plan.model, plan.dtype)
    rows = measured.operations.rows
    proven = tuple(
        ProvenStep(batch, timing, steps.seconds(batch.shape), sum_of_nearest_s(rows, plan.model, batch))
        for batch, timing in zip(batches, measured.steps, strict=True)
    )
    return Proof(machine.name, plan.dtype, proven, len(rows), busy_cpus, _remarks(measured.operations))


def _measure(
    plan: Plan, machine: Machine, batches: Sequence[StepBatch], on_progress: Callable[[int, float], None]
) -> Measured:
    from calibrate.timing.measure import measure, new_bench
    from calibrate.timing.small_transformer_steps import lay_out, new_transformer, step_timer

    shape = layer_shape(plan.model)
    points = operation_points(shape, plan.dtype, machine.kind) if plan.points is None else plan.points
    blocks = blocks_needed(batches)
    transformer = new_transformer(plan.model, machine, plan.dtype, blocks=blocks, block_size=BLOCK_SIZE)
    timers = [step_timer(transformer, lay_out(transformer, batch, plan.seed + i)) for i, batch in enumerate(batches)]
    bench = new_bench(machine, shape, plan.dtype, BLOCK_SIZE)
    apparatus = Apparatus(
        time_step=lambda step: timers[step](),
        time_points=lambda some, seconds: measure([some], bench, seconds),
        on_progress=on_progress,
    )
    return measure_in_rounds(len(timers), points, apparatus, plan.budget_s, np.random.default_rng(plan.seed))


def _make(folder: Path) -> None:
    """Make the folder before minutes are spent on what goes there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"--out {folder}: {error.strerror}") from None


def _conditions(machine: Machine, command: str) -> tuple[str, ...]:
    from calibrate.timing.conditions import conditions

    return tuple(f"{name}: {text}" for name, text in conditions(machine, command).items())


def _write(path: Path, rows: Sequence[Row], noted: tuple[str, ...]) -> None:
    import pandas as pd

    from calibrate.table_io import write_table

    if not rows:
        raise CalibrationError("no operation could be timed; give more --minutes")
    write_table(path, pd.DataFrame(rows), noted)


def _remarks(operations: Outcome) -> tuple[str, ...]:
    left = [f"{operations.left} operations were left for lack of time: give more --minutes"] if operations.left else []
    return (*skipped_lines(operations.skipped), *left)


def _out_of_memory(error: Exception) -> Exception:
    line = str(error).strip().split("\n")[0]
    if isinstance(error, MemoryError) or "memory" in line:
        return CalibrationError(f"the small transformer does not fit: {line or 'out of memory'}")
    return error
