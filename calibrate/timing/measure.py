"""Times points one after the other within a budget. Nothing that goes wrong at one of them stops the others."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple

import torch

from calibrate.timing import attention_cases, elementwise_cases, layer_cases, linear_cases, machine_cases
from calibrate.timing.cases import Bench, Case, Unsupported
from calibrate.timing.layer_shape import LayerShape
from calibrate.timing.light import faster_than_light
from calibrate.timing.machine import Machine, free_bytes
from calibrate.timing.outcome import Listener, Outcome, Row, Skipped
from calibrate.timing.pace import Pace
from calibrate.timing.points import Point
from calibrate.timing.samplers import sampler
from calibrate.timing.stopwatch import time_until_tight
from calibrate.timing.tensors import TORCH_DTYPES
from calibrate.timing.work import Work, work
from sim.units import GIB

Builder = Callable[[Point, Bench, int], Case]
CASES: dict[str, Builder] = {
    "gemm": linear_cases.gemm,
    "head": linear_cases.head,
    "prefill_attention": attention_cases.prefill_attention,
    "decode_attention": attention_cases.decode_attention,
    "elementwise": elementwise_cases.elementwise,
    "sampling": elementwise_cases.sampling,
    "layer": layer_cases.layer,
    "peak_memory": layer_cases.peak_memory,
    "copy": machine_cases.copy,
    "launch": machine_cases.launch,
}
_LONGEST_SHARE_S = 2.0
_LEAST_SHARE_S = 0.05
_POINT_SHARE = 0.1  # of the budget: more than that for one point is too much
_FREE_SHARE = 0.8
_WARM = "inputs stay in the cache"


class _NoTimeLeft(Exception):  # noqa: N818 - a larger budget mends it
    """A point does not fit in what is left of the budget, though it would at its start."""


class _Failed(Exception):  # noqa: N818 - becomes a Skipped
    """A point cannot be timed; the message says why."""


def new_bench(machine: Machine, shape: LayerShape, dtype: str, block_size: int) -> Bench:
    """Return what cases are built from; `dtype` is that of activations."""
    return Bench(machine, shape, dtype, TORCH_DTYPES[dtype], block_size)


def measure(
    levels: Sequence[Sequence[Point]],
    bench: Bench,
    budget_s: float,
    *,
    done: Collection[tuple[str, ...]] = (),
    listener: Listener | None = None,
    clock_note: Callable[[], str] = str,
    cases: dict[str, Builder] = CASES,
    now: Callable[[], float] = monotonic,
) -> Outcome:
    """Time the points of each level, coarsest first, until the budget is used.

    Points whose key is in `done` are left out. Returns rows of the measurement table, and each point that was skipped
    with its reason: unsupported here, out of memory, too slow for the budget, NaN, or faster than light.
    """
    listener = listener or Listener()
    started, outcome, pace = now(), Outcome(), Pace(bench.machine.kind)
    for level in levels:
        todo = [point for point in level if point.key not in done]
        for place, point in enumerate(todo):
            left_s = budget_s - (now() - started)
            if left_s <= 0:
                outcome.left += len(todo) - place
                break
            listener.on_point(point, left_s)
            share_s = min(max(left_s / (len(todo) - place), _LEAST_SHARE_S), _LONGEST_SHARE_S)
            try:
                row = _time_point(point, bench, cases, pace, _Time(budget_s * _POINT_SHARE, left_s, share_s))
            except _NoTimeLeft:
                outcome.left += 1
                continue
            except _Failed as failure:
                outcome.skipped.append(Skipped(point, str(failure)))
                listener.on_skip(outcome.skipped[-1])
                continue
            row["note"] = "; ".join(part for part in (str(row["note"]), clock_note()) if part)
            outcome.rows.append(row)
            listener.on_row(row)
    return outcome


class _Time(NamedTuple):
    most_s: float  # a point foretold to take longer is skipped
    left_s: float  # of the whole budget
    share_s: float  # in which to repeat it


def _time_point(point: Point, bench: Bench, cases: dict[str, Builder], pace: Pace, time: _Time) -> Row:
    needed = work(point, bench.shape, bench.dtype_name)
    if point.operation == "peak_memory" and bench.machine.kind == "cpu":
        needed = Work(0.0, 0.0, 0.0)  # it is computed, not run
    free = free_bytes(bench.machine)
    if needed.tensor_bytes > _FREE_SHARE * free:
        raise _Failed(f"needs {needed.tensor_bytes / GIB:.1f} GiB, {free / GIB:.1f} GiB are free")
    expected_s = pace.expected_s(point, needed)
    if expected_s > time.most_s:
        raise _Failed(f"would take about {expected_s:.2g} s of the {time.most_s:.2g} s one point may; give more budget")
    if expected_s > time.left_s:
        raise _NoTimeLeft
    copies = bench.copies(needed.tensor_bytes, min(free / 4, pace.bytes_in(time.most_s / 2)))
    try:
        with torch.inference_mode():
            case = cases[point.operation](point, bench, copies)
            row = {**_shape_columns(point, bench), **point.columns(), "label": case.label, "note": case.note}
            if case.memory is not None:
                return row | {"memory_bytes": case.memory()}
            warm = bench.stays_in_cache(needed.tensor_bytes, copies)
            timed = _timed_columns(case, bench, time.share_s)
    except Unsupported as reason:
        raise _Failed(str(reason)) from None
    except (torch.OutOfMemoryError, MemoryError):
        raise _Failed(f"out of memory; {free / GIB:.1f} GiB were free") from None
    except (RuntimeError, NotImplementedError) as error:
        line = str(error).strip().split("\n")[0]
        why = "out of memory" if "allocate memory" in line else f"{bench.machine.engine} cannot: {line}"
        raise _Failed(why[:300]) from None
    time_s = float(timed["time_s"])
    pace.learn(point, needed, time_s)
    cold = replace(needed, read_bytes=0.0) if warm else needed
    gpu = bench.machine.gpu
    fault = gpu and faster_than_light(time_s, cold, gpu, point.weight_dtype)
    if fault:
        raise _Failed(fault)
    notes = (row["note"], timed["note"], _WARM if warm and needed.read_bytes else "")
    return row | timed | {"note": "; ".join(str(note) for note in notes if note)}


def _timed_columns(case: Case, bench: Bench, share_s: float) -> dict[str, Any]:
    first = case.call(0)
    if isinstance(first, torch.Tensor) and first.is_floating_point() and not _finite(first):
        raise _Failed("NaN or infinity in the result")
    del first
    taken = sampler(case, bench.machine.kind)
    timing = time_until_tight(taken.sample, share_s)
    return {
        "graph": taken.graph,
        "time_s": timing.median_s,
        "time_low_s": timing.low_s,
        "time_high_s": timing.high_s,
        "repeats": timing.repeats,
        "note": taken.note,
    }


def _finite(result: torch.Tensor) -> bool:
    return bool(torch.isfinite(result.float() if result.dtype.itemsize == 1 else result).all())


def _shape_columns(point: Point, bench: Bench) -> Row:
    shape = bench.shape
    row: Row = {"gpu": bench.machine.name, "engine": bench.machine.engine, "source": "kvcliff calibrate"}
    if point.operation in {"copy", "launch"} or point.part == "square":
        return row
    row |= {"model": shape.model, "tensor_parallel": shape.tensor_parallel, "layers": 1}
    if point.operation in {"prefill_attention", "decode_attention", "layer"}:
        row |= {"num_heads": shape.num_heads, "num_kv_heads": shape.num_kv_heads, "head_dim": shape.head_dim}
    if point.operation in {"head", "sampling", "peak_memory"}:
        row["layers"] = None
    return row
