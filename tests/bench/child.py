"""Measures one case in this process and prints what it found as JSON; started anew for every measurement.

CPU seconds of this process, all its threads and start-up included in `whole_s`; peak memory before anything is
hashed for comparison.
"""

import gc
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from bench.cases import CASES, Size
from bench.engines import Digest
from bench.phases import LOOP, PHASES, Counts, loop_over, simulate_case


class Order(msgspec.Struct, frozen=True):
    """What to measure."""

    case: str
    engine: str
    repeats: int
    data: str
    scale: float
    compares: bool  # hash the results


class Report(msgspec.Struct, frozen=True):
    """What a process measured: CPU seconds a repetition, and once for the process."""

    build_s: list[float]
    simulate_s: list[float]
    metrics_s: list[float]
    whole_s: float  # imports, look-ups and the first repetition
    peak_bytes: int
    requests: int
    output_tokens: int
    steps: int
    results: str = ""  # hash
    times: str = ""  # hash


class _CpuClock:
    """Adds up CPU seconds by phase."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start_s = time.process_time()
        yield
        self.seconds[phase] += time.process_time() - start_s


def measure(order: Order) -> Report:
    """Repeat a case and time its phases."""
    case, size = CASES[order.case], Size(Path(order.data), order.scale)
    plan = None if order.engine == LOOP else case.plan(size)
    rows = case.trace(size) if order.engine == LOOP and case.trace is not None else []
    clocks: list[_CpuClock] = []
    counts = Counts()
    whole_s = 0.0
    for _ in range(order.repeats):
        gc.collect()
        clock = _CpuClock()
        counts = loop_over(rows, clock) if plan is None else simulate_case(plan, order.engine, clock)
        clocks.append(clock)
        whole_s = whole_s or time.process_time()
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    digest = Digest()
    if order.compares and plan is not None:
        simulate_case(plan, order.engine, _CpuClock(), digest)
    build_s, simulate_s, metrics_s = ([clock.seconds[phase] for clock in clocks] for phase in PHASES)
    return Report(build_s, simulate_s, metrics_s, whole_s, peak_bytes, *counts, digest.results, digest.times)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(msgspec.json.decode(sys.argv[1], type=Order))))
