"""What a run tells while it goes, and what it came to."""

from collections.abc import Callable
from dataclasses import dataclass, field

from calibrate.timing.points import Point

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A point that has no row, and why."""

    point: Point
    reason: str


@dataclass(slots=True)
class Outcome:
    """What a run came to. `left` counts the points it had no time for."""

    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    left: int = 0


@dataclass(frozen=True, slots=True)
class Listener:
    """Called as the run goes: with the points to do and those done, each point and the seconds left, each result."""

    on_start: Callable[[int, int], None] = lambda _todo, _done: None
    on_point: Callable[[Point, float], None] = lambda _point, _left_s: None
    on_row: Callable[[Row], None] = lambda _row: None
    on_skip: Callable[[Skipped], None] = lambda _skipped: None
