"""One calibration: a file, a machine, a grid and a budget, from settings as a user gives them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from calibrate.timing.grid import BLOCK_SIZE, Limits, Types, grid
from calibrate.timing.layer_shape import LayerShape, layer_shape
from calibrate.timing.machine import open_machine  # before torch, whose threads it pins
from calibrate.timing.outcome import Listener, Outcome
from calibrate.timing.row_file import RowFile, open_rows
from sim.catalog import load_model

_IDLE_CPUS = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user asks for. `model` is a catalog name or a config.json; `budget_s` is wall time, start-up included."""

    device: str
    model: str
    out: Path
    types: Types
    budget_s: float
    tensor_parallel: int = 1
    limits: Limits = field(default_factory=Limits)
    threads: int | None = None
    fresh: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """What a calibration came to. `rows` are all of the file, as text."""

    gpu: str
    shape: LayerShape
    rows: Sequence[Mapping[str, str]]
    outcome: Outcome
    remarks: tuple[str, ...]
    seconds: float


def run_session(settings: Settings, listener: Listener) -> Session:
    """Time what the settings ask for, appending each row to the file as soon as it is there.

    Raises CatalogError or CalibrationError before anything is written. An interrupt passes through; the file then holds
    every point that was finished.
    """
    started, busy_cpus = monotonic(), os.getloadavg()[0]
    shape = layer_shape(load_model(settings.model), settings.tensor_parallel)
    levels = grid(shape, settings.types, settings.limits, settings.device)
    machine = open_machine(settings.device, settings.types.dtype, settings.threads)
    from calibrate.timing.conditions import clock_note, conditions
    from calibrate.timing.measure import measure, new_bench

    identity = {
        "model": _describe(shape),
        "gpu": machine.name,
        "tensor_parallel": str(shape.tensor_parallel),
        "dtype": settings.types.dtype,
        "block_size": str(BLOCK_SIZE),
    }
    with open_rows(settings.out, identity, conditions(machine, settings.command), fresh=settings.fresh) as file:
        done = file.done
        todo = sum(point.key not in done for level in levels for point in level)
        listener.on_start(todo, len(done))
        outcome = measure(
            levels,
            new_bench(machine, shape, settings.types.dtype, BLOCK_SIZE),
            settings.budget_s - (monotonic() - started),
            done=done,
            listener=_appending(file, listener),
            clock_note=clock_note(machine),
        )
        rows = tuple(file.rows)
    return Session(machine.name, shape, rows, outcome, _remarks(shape, machine.kind, busy_cpus), monotonic() - started)


def _appending(file: RowFile, listener: Listener) -> Listener:
    def on_row(row: dict[str, object]) -> None:
        file.append(row)
        listener.on_row(row)

    return replace(listener, on_row=on_row)


def _describe(shape: LayerShape) -> str:
    return (
        f"{shape.model} (hidden {shape.hidden_size}, {shape.num_heads} heads of {shape.head_dim}, "
        f"{shape.num_kv_heads} KV heads, MLP {shape.intermediate_size}, vocabulary {shape.vocab_size})"
    )


def _remarks(shape: LayerShape, device: str, busy_cpus: float) -> tuple[str, ...]:
    """Return a line for each thing to know: what this command cannot time, and a machine that was not idle."""
    lines = []
    if shape.has_experts:
        lines.append(f"expert layers of {shape.model} and whole layers are not timed: torch has no fused experts")
    if shape.tensor_parallel > 1:
        lines.append(f"all-reduce over {shape.tensor_parallel} GPUs is not timed: one GPU is used")
    if device == "cpu" and busy_cpus > _IDLE_CPUS:
        lines.append(f"other programs kept {busy_cpus:.1f} CPUs busy at the start: these times are too long")
    return tuple(lines)
