"""A sweep as plain rows and as one JSON object: every combination, also those that failed or cannot exist."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sim.json_output import result_json
from sim.report.refusals import refused, share_refused, why_refused
from sim.results.points import Row
from sim.run import Result
from sim.sweep.combinations import Combination
from sim.sweep.task import Task


class Swept(NamedTuple):
    """A combination, and what was found of it; None where it cannot exist."""

    combination: Combination
    result: Result | None

    @property
    def refused(self) -> int:
        """How many turns were refused, over all loads, a seed."""
        return 0 if self.result is None else sum(map(refused, self.result.points))

    @property
    def status(self) -> str:
        """`ok`, `failed` where any simulation did, `refused` where turns were, or `impossible`."""
        if self.result is None:
            return "impossible"
        return "failed" if self.result.failed else "refused" if self.refused else "ok"

    @property
    def errors(self) -> list[str]:
        """Every reason why something is missing, a line each."""
        if self.result is None:
            return [self.combination.impossible or ""]
        lines = [f"{told(task)}: {failure.error}" for task, failure in self.result.failed.items()]
        return lines + ([_refusal(self.result)] if self.refused else [])


def told(task: Task) -> str:
    """Return a task in words: `14 sessions, seed 2, without the limit of KV cache`."""
    limit = "" if task.lifted is None else f", without the limit of {task.lifted}"
    return f"load {task.level}, seed {task.seed}{limit}"


def _refusal(result: Result, *points: Row) -> str:
    return f"{share_refused(result, *points)}, {why_refused(result)}"


def point_rows(swept: Iterable[Swept]) -> list[Row]:
    """Return a row a combination and load, in that order; what is not known is marked and says why."""
    return [row for one in swept for row in _rows(one)]


def _rows(one: Swept) -> Iterator[Row]:
    start: dict[str, Any] = {"scenario": one.combination.scenario}
    start |= {key: value if isinstance(value, int | float | str) else repr(value) for key, value in _settings(one)}
    if one.result is None:
        yield {**start, "sessions": None, "status": "impossible", "error": one.combination.impossible}
        return
    points = {int(point["sessions"]): point for point in one.result.points}
    failed: dict[int, str] = {}
    for task, failure in one.result.failed.items():
        failed.setdefault(task.level, f"{told(task)}: {failure.error}")
    for level in sorted({*points, *failed}):
        point = points.get(level, {})
        error = failed.get(level)
        status = "ok" if point else "failed"
        if point and refused(point):
            status, error = "refused", error or _refusal(one.result, point)
        yield {**start, "sessions": level, "status": status, "error": error, **point}


def _settings(one: Swept) -> Iterator[tuple[str, Any]]:
    yield from one.combination.settings.items()


def sweep_json(swept: Sequence[Swept]) -> dict[str, Any]:
    """Return the sweep in plain types: per combination its settings, status, errors, and what `run --json` prints."""
    return {
        "combinations": [
            {
                "scenario": one.combination.scenario,
                "settings": dict(one.combination.settings),
                "status": one.status,
                "errors": one.errors,
                "refused": one.refused,
                **({} if one.result is None else result_json(one.result)),
            }
            for one in swept
        ]
    }
