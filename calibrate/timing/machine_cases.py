"""The machine itself: copying memory, and launching a kernel that does nothing."""

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from calibrate.timing.cases import Bench, Case
from calibrate.timing.points import Point

_LAUNCHES = 1000


def copy(point: Point, bench: Bench, copies: int) -> Case:  # noqa: ARG001 - larger than any cache by itself
    """Copy half of `bytes`, which reads and writes them all."""
    source = torch.ones((point.bytes or 2) // 2, dtype=torch.uint8, device=bench.machine.kind)
    target = torch.zeros_like(source)
    return Case(lambda _: target.copy_(source))


def launch(point: Point, bench: Bench, copies: int) -> Case:  # noqa: ARG001 - no input worth rotating
    """Add one to one number, often: from the host (eager), inside a CUDA graph, or as graphs of one kernel (replay)."""
    number = torch.zeros(1, device=bench.machine.kind)

    def nothing(_: int = 0) -> Tensor:
        return number.add_(1)

    if bench.machine.kind == "cpu":
        return Case(nothing, sample=lambda: _host_s(nothing, lambda: None), graph="eager")
    if point.graph == "eager":
        return Case(nothing, sample=lambda: _host_s(nothing, torch.cuda.synchronize), graph="eager")
    from calibrate.timing.samplers import captured, event_s

    if point.part == "replay":
        one = captured(nothing)
        return Case(nothing, sample=lambda: _host_s(one.replay, torch.cuda.synchronize), graph="cuda_graph")
    many = captured(lambda: _repeat(nothing))
    return Case(nothing, sample=lambda: event_s(many.replay) / _LAUNCHES, graph="cuda_graph")


def _host_s(run: Callable[[], object], wait: Callable[[], None]) -> float:
    wait()
    started = perf_counter()
    _repeat(run)
    wait()
    return (perf_counter() - started) / _LAUNCHES


def _repeat(run: Callable[[], object]) -> None:
    for _ in range(_LAUNCHES):
        run()
