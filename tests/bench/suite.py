"""Runs cases and commands in fresh processes, round by round, and puts what they report together.

A round takes each case with our engine and its references one after another, so that a machine that slows down
for a while slows both sides of a ratio.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from bench.cases import Case, Command, Size
from bench.child import Order, Report
from bench.machine import this_machine
from bench.phases import LOOP, OURS, PLAIN
from bench.requests import trace_file
from bench.results import CaseResult, CommandResult, Outcome, Spread
from bench.targets import targets

import sim

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent
MEASURED = Path(sim.__file__).resolve().parents[1]  # the source, or a compiled copy of it

Measure = Callable[[Order], Report]
Progress = Callable[[str], None]


class BenchError(Exception):
    """A measurement failed, or two engines disagree."""


class _Timing(NamedTuple):
    cpu_s: float
    wall_s: float


def measure_in_fresh_process(order: Order) -> Report:
    """Measure in a process of its own; raises BenchError with its last words if it fails."""
    text = msgspec.json.encode(order).decode()
    command = [sys.executable, "-P", "-m", "bench.child", text]
    environment = _environment(MEASURED if order.engine == OURS else SOURCE)  # references are never compiled
    done = subprocess.run(command, env=environment, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise BenchError(f"{order.case} with {order.engine} failed: {_last_line(done.stderr)}")
    return msgspec.json.decode(done.stdout, type=Report)


def measured(
    cases: Sequence[Case],
    commands: Sequence[Command],
    size: Size,
    progress: Progress,
    measure: Measure = measure_in_fresh_process,
) -> Outcome:
    """Measure everything, and judge the targets if sizes are the real ones."""
    machine = this_machine()
    found = run_cases(cases, size, progress, measure)
    ran = run_commands(commands, size, progress)
    full, conversations = size.scale == 1, any(case.trace is not None for case in cases)
    judged = targets({one.name: one for one in found}, {one.name: one for one in ran}) if full else targets({}, {})
    drawn = conversations and not trace_file(size.data, "conv2000").exists()
    return Outcome(machine, size.scale, drawn, found, ran, judged)


def run_cases(
    cases: Sequence[Case], size: Size, progress: Progress, measure: Measure = measure_in_fresh_process
) -> list[CaseResult]:
    """Measure all cases; raises BenchError where the plain engine's results are not ours."""
    reports: dict[tuple[str, str], list[Report]] = {}
    for round_number in range(max((case.rounds for case in cases), default=0)):
        for case in cases:
            if round_number < case.rounds:
                for engine in _engines(case):
                    progress(f"{case.name}, {engine}")
                    report = measure(_order(case, engine, size, is_first=not round_number))
                    reports.setdefault((case.name, engine), []).append(report)
    return [_result(case, {engine: reports[case.name, engine] for engine in _engines(case)}) for case in cases]


def run_commands(commands: Iterable[Command], size: Size, progress: Progress) -> list[CommandResult]:
    """Measure whole commands, their children included; raises BenchError where one fails."""
    results: list[CommandResult] = []
    for command in commands:
        progress(command.name)
        timings = [_timed(command, size) for _ in range(command.rounds)]
        cpu_s, wall_s = (Spread.of([getattr(timing, name) for timing in timings]) for name in _Timing._fields)
        results.append(CommandResult(command.name, cpu_s, wall_s))
    return results


def _engines(case: Case) -> list[str]:
    engines = [OURS]
    if case.against_plain_engine:
        engines.append(PLAIN)
    if case.trace is not None and not case.on_demand:
        engines.append(LOOP)
    return engines


def _order(case: Case, engine: str, size: Size, *, is_first: bool) -> Order:
    compares = is_first and case.against_plain_engine and engine != LOOP
    return Order(case.name, engine, 1 if engine == PLAIN else case.repeats, str(size.data), size.scale, compares)


def _result(case: Case, reports: dict[str, list[Report]]) -> CaseResult:
    ours = reports[OURS]
    if PLAIN in reports and reports[PLAIN][0].results != ours[0].results:
        raise BenchError(f"{case.name}: the plain engine gives other results")
    first = ours[0]
    return CaseResult(
        case.name,
        first.requests,
        first.output_tokens,
        first.steps,
        build_s=_spread(ours, "build_s"),
        simulate_s=_spread(ours, "simulate_s"),
        metrics_s=_spread(ours, "metrics_s"),
        whole_s=Spread.of([report.whole_s for report in ours]),
        peak_bytes=max(report.peak_bytes for report in ours),
        plain_loop_s=_spread(reports[LOOP], "simulate_s") if LOOP in reports else None,
        plain_engine_s=_spread(reports[PLAIN], "simulate_s") if PLAIN in reports else None,
        times=first.times,
    )


def _spread(reports: Iterable[Report], phase: str) -> Spread:
    return Spread.of([seconds for report in reports for seconds in getattr(report, phase)])


def _timed(command: Command, size: Size) -> _Timing:
    arguments = [sys.executable, "-P", "-m", "sim", *command.arguments(size)]
    environment = _environment(MEASURED)
    with tempfile.TemporaryFile() as errors:
        start_s = time.perf_counter()
        started = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=errors)  # noqa: S603
        _, status, usage = os.wait4(started.pid, 0)
        wall_s = time.perf_counter() - start_s
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            errors.seek(0)
            raise BenchError(f"{command.name} failed: {_last_line(errors.read())}")
    return _Timing(usage.ru_utime + usage.ru_stime, wall_s)


def _environment(root: Path) -> dict[str, str]:
    """Return an environment in which `sim` is that of this folder."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (TESTS, root)))}


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "without a word"
