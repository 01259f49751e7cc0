"""Predicted against measured, run by run, with the limits a prediction has to keep.

Hit rate and throughput are compared with the mean of the repeats. TTFT near a knee is chaotic: its mean has to lie
in the spread of the repeats, widened by a tenth. Where a run was not repeated, the other draw is taken instead: the
measured run has to lie in the spread of the replicates, widened alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrate.fitting.whole_steps import WholeStepsFit
from calibrate.validation.cliff_prediction import CliffMetrics, mean_metrics, measured_metrics
from calibrate.validation.cliff_runs import EngineSettings, RecordedRun
from calibrate.validation.cliff_workload import Workload

HIT_RATE_POINTS = 0.04
THROUGHPUT_SHARE = 0.08
SPREAD_WIDENED = 0.10

Predict = Callable[[Workload, EngineSettings], Sequence[CliffMetrics]]  # one result a replicate


class Limit(NamedTuple):
    """One thing a prediction has to keep."""

    metric: str
    value: float
    low: float
    high: float
    rule: str

    @property
    def met(self) -> bool:
        """Whether it was kept."""
        return self.low <= self.value <= self.high


class OpenLoop(NamedTuple):
    """The recorded batches priced one by one: what the step times alone get wrong. Relative errors."""

    busy_error: float
    median_step_error: float


@dataclass(frozen=True, slots=True)
class Case:
    """A workload on an engine: its recorded runs, and the replicates predicted for it."""

    runs: Sequence[RecordedRun]
    fitted_on: bool  # its steps are in the fit: a prediction of them proves little
    measured: Sequence[CliffMetrics]
    predicted: Sequence[CliffMetrics]
    open_loop: OpenLoop

    @property
    def workload(self) -> Workload:
        """What was asked of the engine."""
        return self.runs[0].workload

    @property
    def engine(self) -> EngineSettings:
        """What it was asked of."""
        return self.runs[0].engine

    def limits(self) -> list[Limit]:
        """Return every limit and whether it is met."""
        real, ours = mean_metrics(self.measured), mean_metrics(self.predicted)
        low, high = real.turns_per_s * (1 - THROUGHPUT_SHARE), real.turns_per_s * (1 + THROUGHPUT_SHARE)
        hit_low, hit_high = real.hit_rate - HIT_RATE_POINTS, real.hit_rate + HIT_RATE_POINTS
        return [
            Limit("turns_per_s", ours.turns_per_s, low, high, f"within {THROUGHPUT_SHARE:.0%}"),
            Limit("hit_rate", ours.hit_rate, hit_low, hit_high, f"within {100 * HIT_RATE_POINTS:g} points"),
            *(self._in_spread(metric) for metric in ("ttft_p50_s", "ttft_p90_s")),
        ]

    def _in_spread(self, metric: str) -> Limit:
        real, ours = ([getattr(run, metric) for run in runs] for runs in (self.measured, self.predicted))
        if len(real) > 1:
            spread, value, whose = real, float(np.mean(ours)), "repeats"
        else:
            spread, value, whose = ours, real[0], "replicates (measured once)"
        widened = (1 - SPREAD_WIDENED, 1 + SPREAD_WIDENED)
        rule = f"spread of the {whose} ± {SPREAD_WIDENED:.0%}"
        return Limit(metric, value, min(spread) * widened[0], max(spread) * widened[1], rule)


def make_case(
    runs: Sequence[RecordedRun], fit: WholeStepsFit, fitted_on: Sequence[RecordedRun], predict: Predict
) -> Case:
    """Return the case of runs that repeat one another."""
    return Case(
        runs=runs,
        fitted_on=any(run in fitted_on for run in runs),
        measured=[measured_metrics(run) for run in runs],
        predicted=predict(runs[0].workload, runs[0].engine),
        open_loop=_open_loop(runs, fit),
    )


def _open_loop(runs: Sequence[RecordedRun], fit: WholeStepsFit) -> OpenLoop:
    real = np.array([step.cpu for run in runs for step in run.steps])
    ours = np.array([fit.steps.seconds(batch) for run in runs for batch in run.batches()])
    return OpenLoop(float(ours.sum() / real.sum() - 1), float(np.median(np.abs(ours / real - 1))))
