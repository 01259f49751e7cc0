"""Takes one sample of a case's time: with the CPU's counter, or CUDA events around a graph of calls.

On a CPU a sample is one call, after other bytes went through its caches, of data and of addresses: in a step the
weights of a layer do so between two calls, and in a loop small kernels take half as long. On a GPU a sample holds as
many calls as make it long against the clock. Short ones are captured into a CUDA graph, as engines run their decode
steps, so that the host's launches do not count; calls longer than a millisecond hide them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from time import perf_counter
from typing import Any

import torch

from calibrate.timing.cases import Case

_PASSING_BYTES = 16 * 2**20  # read, and as many written: about the weights of a small layer
_GPU_SAMPLE_S = 1e-3
_MOST_CALLS = 512


@dataclass(frozen=True, slots=True)
class Sampler:
    """`sample` returns seconds of one call."""

    graph: str
    sample: Callable[[], float]
    note: str = ""


def sampler(case: Case, kind: str) -> Sampler:
    """Warm the case up and return how to time it on a cpu or cuda device."""
    if case.sample is not None:
        case.sample()
        return Sampler(case.graph or "eager", case.sample)
    return _on_gpu(case) if kind == "cuda" else _on_cpu(case)


def _on_cpu(case: Case) -> Sampler:
    turn = _turns(case)
    turn()

    def sample() -> float:
        _pass_through_cache()
        started = perf_counter()
        turn()
        return perf_counter() - started

    return Sampler("eager", sample)


def _pass_through_cache() -> None:
    source, target = _passing()
    target.copy_(source)


@lru_cache(maxsize=1)
def _passing() -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.ones(_PASSING_BYTES, dtype=torch.uint8)
    return source, torch.zeros_like(source)


def _on_gpu(case: Case) -> Sampler:
    turn = _turns(case)
    turn()  # compiles
    call_s = min(event_s(turn), event_s(turn))
    if call_s >= _GPU_SAMPLE_S:
        return Sampler("eager", lambda: event_s(turn))
    calls = max(case.copies, ceil(_calls(call_s, _GPU_SAMPLE_S) / case.copies) * case.copies)
    try:
        graph = captured(lambda: _repeat(turn, calls))
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        torch.cuda.synchronize()
        return Sampler("eager", lambda: event_s(lambda: _repeat(turn, calls)) / calls, "no graph: it waits")
    return Sampler("cuda_graph", lambda: event_s(graph.replay) / calls)


def event_s(run: Callable[[], object]) -> float:
    """Return the GPU seconds between two events around `run`."""
    event: Any = torch.cuda.Event  # untyped in torch
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def captured(run: Callable[[], object]) -> Any:
    """Return a CUDA graph of what `run` launches, replayed once."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _turns(case: Case) -> Callable[[], object]:
    """Return a function that calls the case on one copy after the other."""
    copy = -1

    def turn() -> object:
        nonlocal copy
        copy = (copy + 1) % case.copies
        return case.call(copy)

    return turn


def _repeat(turn: Callable[[], object], calls: int) -> None:
    for _ in range(calls):
        turn()


def _calls(call_s: float, sample_s: float) -> int:
    return max(1, min(_MOST_CALLS, ceil(sample_s / max(call_s, 1e-9))))
