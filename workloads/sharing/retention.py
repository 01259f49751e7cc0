"""A trace's retention: what comes back of its prompts with a cache of limited size, or with content kept for a time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workloads.sharing.kept import KeptCurve, kept_curve
from workloads.sharing.lru import SizeCurve, lru_curve
from workloads.sharing.optimum import next_uses, optimum_hits
from workloads.sharing.path_collector import PathCollector

POINTS = 32  # sizes of the curves
KEPT_S = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 3 * 3600, 12 * 3600, 24 * 3600)

Told = Callable[[int, int], None]  # sizes done, of so many


@dataclass(frozen=True, slots=True)
class Retention:
    """Curves over cache sizes in blocks, and over time where the trace tells times."""

    requests: int
    left_out: int  # requests at the end that were too many
    prompt_tokens: int
    hit_tokens: int  # of an unlimited cache, in blocks
    block_tokens: int
    distinct_blocks: int
    sizes: tuple[int, ...]
    lru: SizeCurve
    optimum: tuple[int, ...]  # tokens hit at each of `sizes`
    kept: KeptCurve | None


def sizes_for(distinct: int, points: int = POINTS) -> tuple[int, ...]:
    """Return cache sizes for a curve, evenly on a log scale, up to all distinct blocks."""
    least = max(1, distinct >> 11)
    return tuple(sorted({round(size) for size in np.geomspace(least, max(distinct, 1), points).tolist()}))


def retention(collected: PathCollector, told: Told = lambda _done, _of: None) -> Retention:
    """Return the curves of what was collected; `told` hears of progress."""
    own = collected.paths()
    paths = own.with_shared_fronts()
    sizes = sizes_for(paths.count)
    steps = len(sizes) + 3
    lru = lru_curve(paths)
    told(1, steps)
    kept = kept_curve(own if collected.apart else paths) if own.begin_s is not None else None
    told(2, steps)
    uses = next_uses(paths)
    optimum: list[int] = []
    for size in sizes:
        told(len(optimum) + 3, steps)
        optimum.append(optimum_hits(paths, uses, size))
    told(steps, steps)
    return Retention(
        len(paths),
        collected.left_out,
        int(paths.prompt_tokens.sum(dtype=np.int64)),
        lru.at(paths.count),
        paths.block_tokens,
        paths.count,
        sizes,
        lru,
        tuple(optimum),
        kept,
    )
