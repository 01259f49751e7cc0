"""One load level: its seeds, each simulated with and without a KV limit, as one point and its knee ratios."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sim.results.replicates import rests_on_few, summarise

Metrics = Mapping[str, float]


class Level(NamedTuple):
    """The metrics of a level over its seeds, and p99 TTFT over that with unlimited KV, one ratio a seed."""

    point: dict[str, float]
    ratios: list[float]


def level_of(sessions: int, limited: Sequence[Metrics], unlimited: Sequence[Metrics]) -> Level:
    """Return what runs of the same seeds, in the same order, say of a load level."""
    seeds: list[dict[str, float]] = []
    ratios: list[float] = []
    for run, free in zip(limited, unlimited, strict=True):
        unlimited_s = free["ttft_p99_s"]
        ratio = _ratio(run["ttft_p99_s"], unlimited_s)
        ratios.append(ratio)
        knee_ratio = ratio if math.isfinite(ratio) else math.nan
        seeds.append({**run, "unlimited_kv_ttft_p99_s": unlimited_s, "knee_ratio": knee_ratio})
    point: dict[str, float] = {"sessions": sessions} | summarise(seeds)
    point["ttft_p99_rests_on_few"] = rests_on_few(point)
    return Level(point, ratios)


def _ratio(limited_s: float, unlimited_s: float) -> float:
    """Return the knee ratio; where only the unlimited cache lets anything complete, it has no bound."""
    if math.isnan(limited_s) and not math.isnan(unlimited_s):
        return math.inf
    return limited_s / unlimited_s if unlimited_s else math.nan
