"""Where the time of a case goes: a profile of each phase, by module and by function.

The profiler slows calls more than loops, so shares guide the eye; the suite's own seconds judge.
"""

import cProfile
import pstats
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.cases import Case, Size
from bench.machine import ROOT
from bench.phases import OURS, simulate_case
from bench.tables import Table

INSTALLED = [Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib")]
MOST_FUNCTIONS = 15
MOST_MODULES = 10


class HotSpot(NamedTuple):
    """A function or a module, and the seconds spent in it, callees not included."""

    name: str
    seconds: float
    calls: int


def profile_tables(case: Case, size: Size) -> list[Table]:
    """Profile one repetition of a case; return two tables a phase."""
    profiles: dict[str, cProfile.Profile] = {}

    @contextmanager
    def profiled(phase: str) -> Iterator[None]:
        profile = profiles.setdefault(phase, cProfile.Profile())
        profile.enable()
        yield
        profile.disable()

    simulate_case(case.plan(size), OURS, profiled)
    found: list[Table] = []
    for phase, profile in profiles.items():
        functions = _functions(profile)
        total_s = sum(spot.seconds for spot in functions)
        title = f"{case.name}, {phase}: {total_s:.2f} s under the profiler"
        found.append(_table(f"{title}, by module", "module", _by_module(functions)[:MOST_MODULES], total_s))
        found.append(_table(f"{title}, by function", "function", functions[:MOST_FUNCTIONS], total_s))
    return found


def _functions(profile: cProfile.Profile) -> list[HotSpot]:
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spots = [
        HotSpot(f"{_module(file)}:{name}", own_s, calls) for (file, _, name), (_, calls, own_s, _, _) in stats.items()
    ]
    return sorted(spots, key=lambda spot: spot.seconds, reverse=True)


def _by_module(functions: list[HotSpot]) -> list[HotSpot]:
    modules: dict[str, HotSpot] = {}
    for spot in functions:
        name = spot.name.partition(":")[0]
        _, seconds, calls = modules.get(name, HotSpot(name, 0.0, 0))
        modules[name] = HotSpot(name, seconds + spot.seconds, calls + spot.calls)
    return sorted(modules.values(), key=lambda spot: spot.seconds, reverse=True)


def _module(file_name: str) -> str:
    """Return a file's module, with its package where it is ours or installed."""
    if file_name == "~":
        return "built in"
    path = Path(file_name)
    folder = next((parent for parent in (*INSTALLED, ROOT) if path.is_relative_to(parent)), path.parent)
    return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def _table(title: str, what: str, spots: list[HotSpot], total_s: float) -> Table:
    rows = [
        [spot.name, f"{spot.seconds * 1000:,.1f}", f"{spot.seconds / (total_s or 1):.0%}", f"{spot.calls:,}"]
        for spot in spots
    ]
    return Table(title, (what, "ms", "share", "calls"), rows)
