"""Where the knee of a recorded sweep lies, predicted and measured: p99 TTFT over 3 times that of an unlimited cache.

The prediction meets every count of slots: the recorded slots, continued from the same ranges where more are asked
for. The real engine met a few counts only, so its knee is known to lie between two of them. Where it was also run
with a cache that holds everything, that run is the denominator; else the predicted one has to stand in.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from calibrate.validation.cliff_cases import Case, Predict
from calibrate.validation.cliff_prediction import CliffMetrics, unlimited
from calibrate.validation.cliff_runs import EngineSettings
from calibrate.validation.cliff_workload import Workload, draw_workload
from sim.results.knee import Knee, find_knee, past_knee

MOST_SESSIONS = 16
NEAR_SESSIONS = 1


@dataclass(frozen=True, slots=True)
class Sweep:
    """One profile, input and engine over the number of sessions."""

    profile: str
    seed: int
    engine: EngineSettings
    cases: Sequence[Case]
    predicted: Mapping[int, Sequence[CliffMetrics]]
    knee: Knee
    measured_ratios: Mapping[int, float]
    controls: Collection[int]  # counts that were also measured with a cache that holds everything

    @property
    def measured_between(self) -> tuple[int, int | None]:
        """The fewest and the most sessions the measured knee may have; None where none was seen past it."""
        past = min((count for count, ratio in self.measured_ratios.items() if past_knee([ratio])), default=None)
        below = max((n for n in self.measured_ratios if past is None or n < past), default=0)
        return below + 1, past

    @property
    def measured_alone(self) -> bool:
        """Whether the counts that decide where the measured knee lies need no predicted denominator."""
        low, past = self.measured_between
        return {low - 1, low - 1 if past is None else past} <= {0, *self.controls}

    @property
    def within_one_session(self) -> bool:
        """Whether the predicted knee is where the measured one may be, give or take one session."""
        low, high = self.measured_between
        if self.knee.sessions is None:
            return high is None or high >= MOST_SESSIONS
        return low - NEAR_SESSIONS <= self.knee.sessions and (
            high is None or self.knee.sessions <= high + NEAR_SESSIONS
        )


def make_sweeps(cases: Sequence[Case], predict: Predict) -> list[Sweep]:
    """Return a sweep for each profile, input and engine; the largest caches are controls, not sweeps."""
    groups: dict[tuple[str, int, EngineSettings], list[Case]] = {}
    for case in cases:
        same_engine = msgspec.structs.replace(case.engine, num_gpu_blocks=0)
        groups.setdefault((case.workload.profile, case.workload.seed, same_engine), []).append(case)
    return [_sweep(group, predict) for group in groups.values()]


def _sweep(cases: Sequence[Case], predict: Predict) -> Sweep:
    blocks = min(case.engine.num_gpu_blocks for case in cases)
    limited = sorted((c for c in cases if c.engine.num_gpu_blocks == blocks), key=lambda case: case.workload.sessions)
    controls = {c.workload.sessions: c for c in cases if c.engine.num_gpu_blocks != blocks}
    largest, engine = limited[-1].workload, limited[0].engine
    predicted: dict[int, Sequence[CliffMetrics]] = {}
    ratios: dict[int, list[float]] = {}
    for count in range(1, MOST_SESSIONS + 1):
        workload = _with_slots(largest, count)
        if workload is None:
            break
        predicted[count] = predict(workload, engine)
        roomy = predict(workload, unlimited(engine))
        ratios[count] = [a.ttft_p99_s / b.ttft_p99_s for a, b in zip(predicted[count], roomy, strict=True)]
        if past_knee(ratios[count]) and count >= largest.sessions:
            break
    measured = {case.workload.sessions: _measured_ratio(case, controls, predict) for case in limited}
    return Sweep(
        profile=largest.profile,
        seed=largest.seed,
        engine=engine,
        cases=limited,
        predicted=predicted,
        knee=find_knee(ratios),
        measured_ratios=measured,
        controls=set(controls),
    )


def _measured_ratio(case: Case, controls: Mapping[int, Case], predict: Predict) -> float:
    control = controls.get(case.workload.sessions)
    roomy = control.measured if control is not None else predict(case.workload, unlimited(case.engine))
    return _mean_p99(case.measured) / _mean_p99(roomy)


def _mean_p99(runs: Sequence[CliffMetrics]) -> float:
    return float(np.mean([run.ttft_p99_s for run in runs]))


def _with_slots(workload: Workload, count: int) -> Workload | None:
    """Return the workload with so many slots; None if it has fewer and does not say what it was drawn from."""
    slots = workload.slots[:count]
    if len(slots) < count:
        if workload.params is None:
            return None
        drawn = draw_workload(workload.profile, workload.params, sessions=count, seed=workload.seed)
        slots = [*slots, *drawn.slots[len(slots) :]]
    return msgspec.structs.replace(workload, sessions=count, slots=slots)
