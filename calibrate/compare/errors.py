"""How far predictions are off: a row a point and metric, and one robust number over all of them.

Metrics say the same thing several times over, so they are grouped, and each group of a point counts once: by the first
of its metrics that both sides know. Errors are logarithms of predicted / measured: half and double are as far off.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from calibrate.validation.e2e_errors import METRICS

Metrics = Mapping[str, float]
GROUPS: Mapping[str, tuple[str, ...]] = {
    "TTFT": ("ttft_p50_s", "ttft_mean_s"),
    "TTFT tail": ("ttft_p99_s", "ttft_p95_s", "ttft_p90_s"),
    "TPOT": ("tpot_mean_s", "tpot_p50_s", "itl_mean_s", "itl_p50_s"),
    "TPOT tail": ("tpot_p99_s", "tpot_p95_s", "tpot_p90_s"),
    "E2E": ("e2e_mean_s", "e2e_p50_s"),
    "throughput": ("requests_per_s", "output_tokens_per_s"),
}
MOST = math.log(100)  # an error that large says no more than that the prediction is useless
_SOFT = 0.03  # below this share, errors count by their square


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One metric of one point."""

    point: int
    metric: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1


def error_rows(measured: Sequence[Metrics], predicted: Sequence[Metrics]) -> list[ErrorRow]:
    """Return a row for every metric that both sides of a point know."""
    return [
        ErrorRow(point, metric, ours[metric], theirs[metric])
        for point, (ours, theirs) in enumerate(zip(measured, predicted, strict=True))
        for metric in METRICS
        if _known(ours, metric) and _known(theirs, metric)
    ]


def median_error(rows: Sequence[ErrorRow]) -> float:
    """Return the median of |error|, NaN without rows."""
    return median(abs(row.error) for row in rows) if rows else math.nan


def group_logs(measured: Sequence[Metrics], predicted: Sequence[Metrics]) -> dict[str, list[float]]:
    """Return the logarithms of predicted / measured of every group that was measured, one a point.

    Where a simulation answers nothing its error is the largest there is.
    """
    logs: dict[str, list[float]] = {}
    for ours, theirs in zip(measured, predicted, strict=True):
        answered = theirs.get("requests", 0.0) > 0
        for group, metrics in GROUPS.items():
            known = [metric for metric in metrics if _known(ours, metric)]
            both = next((metric for metric in known if _known(theirs, metric)), None)
            if both is not None and answered:
                log = math.log(theirs[both] / ours[both])
                logs.setdefault(group, []).append(min(MOST, max(-MOST, log)))
            elif known and not answered:
                logs.setdefault(group, []).append(MOST)
    return logs


def loss(measured: Sequence[Metrics], predicted: Sequence[Metrics]) -> float:
    """Return the mean absolute logarithm over groups, each the mean over its points; rounded off near 0."""
    logs = group_logs(measured, predicted)
    softened = [fmean(math.hypot(log, _SOFT) - _SOFT for log in group) for group in logs.values()]
    return fmean(softened) if softened else math.nan


def misfits(measured: Sequence[Metrics], predicted: Sequence[Metrics]) -> dict[str, float]:
    """Return by which factor each group is off, as the root mean square of its logarithms over points; 1 is exact."""
    logs = group_logs(measured, predicted)
    return {name: math.exp(math.sqrt(fmean(log * log for log in group))) for name, group in logs.items()}


def _known(metrics: Metrics, name: str) -> bool:
    value = metrics.get(name, math.nan)
    return math.isfinite(value) and value > 0
