"""Errors of a replay: a row a metric and load level, then medians by source and regime beside their limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from calibrate.validation.e2e_regimes import BELOW, BEYOND, REGIMES

METRICS = (  # those that get an error, in the tables' order
    *(f"{name}_{part}_s" for name in ("ttft", "tpot", "itl", "e2e") for part in ("mean", "p50", "p90", "p95", "p99")),
    "requests_per_s",
    "output_tokens_per_s",
)


@dataclass(frozen=True, slots=True)
class Limit:
    """How large a source's median |error| may be in a regime; the first of `metrics` that was measured counts."""

    name: str
    regime: str
    metrics: tuple[str, ...]
    error: float


LIMITS = (
    Limit("TTFT mean", BELOW, ("ttft_mean_s", "ttft_p50_s"), 0.10),
    Limit("TTFT p99", BELOW, ("ttft_p99_s", "ttft_p95_s"), 0.20),
    Limit("TPOT", BELOW, ("tpot_mean_s", "tpot_p50_s", "itl_mean_s", "itl_p50_s"), 0.06),
    Limit("E2E", BELOW, ("e2e_mean_s", "e2e_p50_s"), 0.06),
    Limit("throughput", BEYOND, ("requests_per_s", "output_tokens_per_s"), 0.08),
    Limit("TTFT median", BEYOND, ("ttft_p50_s", "ttft_mean_s"), 0.20),
)
TOGETHER = "required sources"
REQUIRED_SOURCES = ("isim_train", "resid", "lss", "dielabs", "do_h200")


@dataclass(frozen=True, slots=True)
class ReplayedPoint:
    """One load level, measured and simulated."""

    experiment: str
    source: str
    gpu: str
    model: str
    profile: str
    label: str
    load: float
    regime: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    notes: tuple[str, ...] = field(default=())

    def error(self, metric: str) -> float | None:
        """Return predicted / measured - 1, None unless both are known and the measured one is not 0."""
        measured, predicted = self.measured.get(metric), self.predicted.get(metric)
        return predicted / measured - 1 if measured and predicted is not None else None


def error_rows(points: Iterable[ReplayedPoint]) -> list[dict[str, object]]:
    """Return one flat row a load level and metric that both sides know."""
    return [
        {
            "source": point.source,
            "experiment": point.experiment,
            "load": point.label,
            "regime": point.regime,
            "metric": metric,
            "measured": point.measured[metric],
            "predicted": point.predicted[metric],
            "error": error,
            "profile": point.profile,
            "gpu": point.gpu,
            "model": point.model,
        }
        for point in points
        for metric in METRICS
        if (error := point.error(metric)) is not None
    ]


@dataclass(frozen=True, slots=True)
class LimitRow:
    """What became of one limit at one source."""

    source: str
    limit: Limit
    loads: int
    median_error: float  # of |error|
    bias: float  # median of the signed error

    @property
    def held(self) -> bool:
        """Whether the median |error| is within the limit."""
        return self.median_error <= self.limit.error


def limit_rows(points: Sequence[ReplayedPoint]) -> list[LimitRow]:
    """Return every limit at every source that has loads in its regime, then over all required sources."""
    sources = list(dict.fromkeys(point.source for point in points))
    rows = [row for source in sources for row in _limits(source, [p for p in points if p.source == source])]
    required = [point for point in points if point.source in REQUIRED_SOURCES]
    return rows + (_limits(TOGETHER, required) if len({p.source for p in required}) > 1 else [])


def _limits(source: str, points: Sequence[ReplayedPoint]) -> list[LimitRow]:
    rows = []
    for limit in LIMITS:
        errors = [
            error
            for point in points
            if point.regime == limit.regime
            and (error := next((e for m in limit.metrics if (e := point.error(m)) is not None), None)) is not None
        ]
        if errors:
            rows.append(LimitRow(source, limit, len(errors), median(map(abs, errors)), median(errors)))
    return rows


def median_rows(points: Sequence[ReplayedPoint]) -> list[dict[str, object]]:
    """Return the median |error| and bias by source, regime and metric."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for point in points:
        for metric in METRICS:
            error = point.error(metric)
            if error is not None:
                groups.setdefault((point.source, point.regime, metric), []).append(error)
    sources = list(dict.fromkeys(point.source for point in points))
    ordered = sorted(groups, key=lambda key: (sources.index(key[0]), REGIMES.index(key[1]), METRICS.index(key[2])))
    return [
        {
            "source": source,
            "regime": where,
            "metric": metric,
            "loads": len(groups[source, where, metric]),
            "median_abs_error": median(map(abs, groups[source, where, metric])),
            "median_error": median(groups[source, where, metric]),
        }
        for source, where, metric in ordered
    ]
