"""The numbers of a workload from the sessions of a trace: distributions by their quantiles, or as lognormals.

What a number of turns, a length or a pause has to do with another is not kept, but for one thing: sessions that begin
with far longer contexts than others are resumed ones, and get a first prompt and a number of turns of their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from workloads.traces.request import HUMAN, TOOL
from workloads.traces.session_steps import ALL, SessionSteps, Step

Shape = Literal["quantiles", "lognormal"]
_SHARES = (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 1)
_RESUMED_RATIO = 4.0  # of the medians of both kinds of first prompts
_RESUMED_LEAST = 3  # sessions of either kind
_P95 = 1.6448536269514722


@dataclass(slots=True)
class _Samples:
    """Everything that distributions are made of."""

    turns: list[int] = field(default_factory=list[int])
    first: list[int] = field(default_factory=list[int])
    new: list[int] = field(default_factory=list[int])
    outputs: list[int] = field(default_factory=list[int])
    pauses_s: dict[str | None, list[float]] = field(default_factory=dict[str | None, list[float]])
    left: list[float] = field(default_factory=list[float])
    left_kept: list[float] = field(default_factory=list[float])
    rewritten_kept: list[float] = field(default_factory=list[float])
    stripped: int = 0
    steps: int = 0


def fitted_workload(sessions: SessionSteps, shape: Shape = "quantiles") -> dict[str, Any]:
    """Return the keys of a scenario's `workload` that make sessions like those of a trace."""
    samples = _samples(sessions)
    shared = sessions.shared_tokens
    fitted: dict[str, Any] = {"shared_prefix_tokens": shared}
    pairs = list(zip(samples.first, samples.turns, strict=True))
    split = _split(samples.first) if max(samples.turns) > 1 else None
    resumed = [pair for pair in pairs if split is not None and pair[0] >= split]
    others = [pair for pair in pairs if split is None or pair[0] < split]
    fitted["turns"] = _count([turns for _, turns in others], shape)
    fitted["first_tokens"] = _count([first for first, _ in others], shape)
    if resumed:
        fitted["resumed"] = {
            "share": _rounded(len(resumed) / len(pairs)),
            "turns": _count([turns for _, turns in resumed], shape),
            "first_tokens": _count([first for first, _ in resumed], shape),
        }
    fitted["new_tokens"] = _count(samples.new or [1], shape)
    fitted["output_tokens"] = _count(samples.outputs, shape)
    if samples.pauses_s:
        fitted["think_s"] = _pauses(samples.pauses_s, shape)
    if samples.steps:
        fitted |= _changes(samples)
    return fitted


def _samples(sessions: SessionSteps) -> _Samples:
    samples = _Samples()
    for name, steps in sessions.steps.items():
        shared = sessions.front(name)
        samples.turns.append(len(steps))
        samples.first.append(max(steps[0].prompt_tokens - shared, 1))
        samples.outputs += [step.output_tokens for step in steps]
        for before, step in pairwise(steps):
            _take_step(samples, before, step, shared)
    return samples


def _take_step(samples: _Samples, before: Step, step: Step, shared: int) -> None:
    samples.steps += 1
    if step.gap_s is not None:
        samples.pauses_s.setdefault(step.driver if step.driver in {HUMAN, TOOL} else None, []).append(step.gap_s)
    own, answer = max(before.prompt_tokens - shared, 0), before.output_tokens
    length = max(step.prompt_tokens - shared, 1)
    kept = max(step.held_tokens - shared, 0)
    if step.held_tokens == ALL:
        samples.new.append(max(length - own - answer, 1))
    elif step.held_tokens == before.prompt_tokens:
        samples.stripped += 1
        samples.new.append(max(length - own, 1))
    elif length < own:
        samples.left.append(length / (own + answer))
        samples.left_kept.append(min(kept / length, 1.0))
    else:
        samples.rewritten_kept.append(min(kept / own, 1.0) if own else 0.0)
        samples.new.append(max(length - own - answer, 1))


def _changes(samples: _Samples) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if samples.stripped:
        changes["stripped_share"] = _rounded(samples.stripped / samples.steps)
    if samples.left:
        share = _rounded(len(samples.left) / samples.steps)
        changes["compaction"] = {"share": share, "left": _share(samples.left), "kept": _share(samples.left_kept)}
    if samples.rewritten_kept:
        share = _rounded(len(samples.rewritten_kept) / samples.steps)
        changes["rewrites"] = {"share": share, "kept": _share(samples.rewritten_kept)}
    return changes


def _split(first: Sequence[int]) -> float | None:
    """Return where first prompts fall into two kinds, by the least variance of their logarithms within both."""
    logs = np.sort(np.log(np.asarray(first, dtype=float)))
    least = max(_RESUMED_LEAST, round(0.05 * len(logs)))
    if len(logs) < 2 * least:
        return None
    cuts = range(least, len(logs) - least + 1)
    within = [logs[:cut].var() * cut + logs[cut:].var() * (len(logs) - cut) for cut in cuts]
    cut = cuts[int(np.argmin(within))]
    if np.median(logs[cut:]) - np.median(logs[:cut]) < math.log(_RESUMED_RATIO):
        return None
    return math.exp((logs[cut - 1] + logs[cut]) / 2)


def _pauses(by_driver: dict[str | None, list[float]], shape: Shape) -> Any:
    parts = {driver: values for driver, values in by_driver.items() if values}
    if len(parts) == 1:
        return _distribution(next(iter(parts.values())), shape)
    total = sum(map(len, parts.values()))
    return {
        "kind": "mixture",
        "parts": [
            {"weight": _rounded(len(values) / total), "of": _distribution(values, shape)} for values in parts.values()
        ],
    }


def _count(values: Sequence[float], shape: Shape) -> Any:
    return _distribution([max(value, 1) for value in values], shape)


def _share(values: Sequence[float]) -> Any:
    return _quantiles(np.sort(np.asarray(values, dtype=float)), digits=3)


def _distribution(values: Sequence[float], shape: Shape) -> Any:
    ordered = np.sort(np.asarray(values, dtype=float))
    median, p95 = float(np.quantile(ordered, 0.5)), float(np.quantile(ordered, 0.95))
    if shape == "quantiles" or not median or p95 <= median or math.log(p95 / median) / _P95 > 5:
        return _quantiles(ordered)
    return {
        "kind": "lognormal",
        "median": _rounded(median),
        "p95": _rounded(p95),
        "min": _rounded(float(ordered[0])),
        "max": _rounded(float(ordered[-1])),
    }


def _quantiles(ordered: "np.ndarray[Any, Any]", digits: int = 4) -> Any:
    """Return a number where all are the same; else as many quantiles as there are values for, and no more."""
    if ordered[0] == ordered[-1]:
        return _rounded(float(ordered[0]), digits)
    shares = [share for share in _SHARES if share in {0, 1} or min(share, 1 - share) * len(ordered) >= 1]
    values = [_rounded(float(value), digits) for value in np.quantile(ordered, shares)]
    return {"kind": "quantiles", "shares": shares, "values": values}


def _rounded(value: float, digits: int = 4) -> float | int:
    """Return a value with so many significant digits, whole numbers as such."""
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
