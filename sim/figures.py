"""Single figures of a result and its variants beside what was published of them, as `checks.figures` lists them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sim.check_spec import BASE_VARIANT, FigureCheck
from sim.errors import ScenarioError, one_of
from sim.results.points import Row, humane
from sim.run import Result

_OF_RESULT = ("knee_sessions", "slo_sessions")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as simulated; NaN where nothing was."""

    check: FigureCheck
    simulated: float

    @property
    def error(self) -> float | None:
        """Simulated over published less 1; None where nothing was published."""
        published = self.check.published
        if published is None:
            return None
        return self.simulated / published - 1 if published else self.simulated - published

    @property
    def met(self) -> bool:
        """Whether the figure is as demanded; one that is not known is not."""
        check, error = self.check, self.error
        near = error is None or (check.error_max is not None and abs(error) <= check.error_max)
        return near and check.low <= self.simulated <= check.high

    @property
    def name(self) -> str:
        """What it is, in words."""
        check = self.check
        own = check.what or f"{check.metric} of {check.variant}"
        at = "" if check.sessions is None or check.what else f" at {check.sessions}"
        over = "" if check.over is None or check.what else f" over {check.over}"
        return own + at + over

    @property
    def demanded(self) -> str:
        """What is demanded, in words."""
        check = self.check
        if check.published is not None and check.error_max is not None:
            return f"{self.shown(check.published)} ± {check.error_max:.0%}"
        low, high = (self.shown(bound) for bound in (check.low, check.high))
        if check.high == math.inf:
            return f"at least {low}"
        return f"at most {high}" if check.low == -math.inf else f"{low} to {high}"

    @property
    def failure(self) -> str:
        """One line for a figure that is not as demanded."""
        if math.isnan(self.simulated):
            why = "no such load was simulated, or nothing to divide by"
            return f"{self.name}: not known ({why}), asked is {self.demanded}"
        off = "" if self.error is None else f", off by {self.error:+.1%}"
        return f"{self.name}: {self.shown(self.simulated)}, asked is {self.demanded}{off}"

    def shown(self, value: float) -> str:
        """Return a value of its kind with its unit; ratios as such."""
        return f"{value:.3g} x" if self.check.over is not None else humane(value, self.check.metric)


def figures_of(result: Result, variants: Mapping[str, Result]) -> list[Figure]:
    """Return the figures that a scenario lists, as far as their variants were run.

    Raises ScenarioError for a metric that no point has.
    """
    found = {BASE_VARIANT: result, **variants}
    listed = result.deployment.scenario.checks.figures
    return [
        Figure(check, _simulated(check, found))
        for check in listed
        if {check.variant, check.over or BASE_VARIANT} <= set(found)
    ]


def _simulated(check: FigureCheck, found: Mapping[str, Result]) -> float:
    value = _value(found[check.variant], check.metric, check.sessions)
    if check.over is None:
        return value
    other = _value(found[check.over], check.metric, check.over_sessions or check.sessions)
    return value / other if other else math.nan


def _value(result: Result, metric: str, sessions: int | None) -> float:
    if metric in _OF_RESULT:
        count = result.knee.sessions if metric == "knee_sessions" else result.slo_sessions
        return math.nan if count is None else float(count)
    point = _point(result, sessions)
    if point is None:
        return math.nan
    if metric not in point:
        plain = [name for name in point if not name.endswith(("_low", "_high"))]
        raise ScenarioError(f"checks.figures: metric {one_of(metric, [*plain, *_OF_RESULT])}")
    return float(point[metric])


def _point(result: Result, sessions: int | None) -> Row | None:
    points = [point for point in result.points if sessions is None or point["sessions"] == sessions]
    return points[-1] if points else None
