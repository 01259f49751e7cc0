"""The result of a proof: measured and predicted steps, their errors, and the limits they must keep."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrate.fitting.robust import Vector
from calibrate.timing.small_transformer_batch import StepBatch
from calibrate.timing.stopwatch import Timing
from calibrate.validation.machine_load import TOO_BUSY_CPUS

MEDIAN_LIMIT, P90_LIMIT = 0.10, 0.20
KINDS = ("prefill", "mixed", "decode")


@dataclass(frozen=True, slots=True)
class ProvenStep:
    """One step: what it took, what its operations say it takes, and the plain sum of the nearest operations."""

    batch: StepBatch
    measured: Timing
    predicted_s: float
    nearest_s: float

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted_s / self.measured.median_s - 1

    def row(self) -> dict[str, Any]:
        """Return the step as a row of a table, in seconds and tokens."""
        return {
            "kind": self.batch.kind,
            "step": str(self.batch),
            **self.batch.shape._asdict(),
            "measured_s": self.measured.median_s,
            "measured_low_s": self.measured.low_s,
            "measured_high_s": self.measured.high_s,
            "repeats": self.measured.repeats,
            "predicted_s": self.predicted_s,
            "error": self.error,
            "sum_of_nearest_operations_s": self.nearest_s,
        }


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Errors of some steps."""

    steps: str
    count: int
    median: float  # of |error|
    p90: float
    bias: float  # median of the errors as they are


@dataclass(frozen=True, slots=True)
class Proof:
    """All steps, and under what conditions they were measured."""

    machine: str
    dtype: str
    steps: Sequence[ProvenStep]
    operations: int  # rows the prediction rests on
    others_busy_cpus: float
    remarks: Sequence[str] = ()

    def summaries(self) -> Iterator[ErrorSummary]:
        """Yield the errors of each kind and of all steps, then those of the plain sum of nearest operations."""
        errors = np.array([step.error for step in self.steps])
        kinds = np.array([step.batch.kind for step in self.steps])
        for kind in KINDS:
            if (kinds == kind).any():
                yield _summary(kind, errors[kinds == kind])
        yield _summary("all", errors)
        yield _summary(
            "all, by nearest operations", np.array([s.nearest_s / s.measured.median_s - 1 for s in self.steps])
        )

    def broken(self) -> list[str]:
        """Return the limits that do not hold, in words."""
        found = next(summary for summary in self.summaries() if summary.steps == "all")
        judged = (("median", found.median, MEDIAN_LIMIT), ("p90", found.p90, P90_LIMIT))
        return [
            f"{self.machine}: {name} |error| {value:.1%} of {found.count} steps, limit {limit:.0%}"
            for name, value, limit in judged
            if not value <= limit
        ]

    @property
    def warning(self) -> str | None:
        """Say that the machine was not idle, where it was not."""
        if self.others_busy_cpus <= TOO_BUSY_CPUS:
            return None
        return f"other programs kept {self.others_busy_cpus:.1f} CPUs busy: errors are larger than on an idle machine"


def as_dict(proof: Proof) -> dict[str, Any]:
    """Return the proof in plain types."""
    return {
        "machine": proof.machine,
        "dtype": proof.dtype,
        "operations": proof.operations,
        "others_busy_cpus": proof.others_busy_cpus,
        "errors": [_plain(asdict(summary)) for summary in proof.summaries()],
        "limits": {"median": MEDIAN_LIMIT, "p90": P90_LIMIT},
        "broken": proof.broken(),
        "remarks": list(proof.remarks),
        "steps": [_plain(step.row()) for step in proof.steps],
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return None for what is no number, which JSON does not know."""
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in values.items()}


def _summary(steps: str, errors: Vector) -> ErrorSummary:
    size = np.abs(errors)
    return ErrorSummary(
        steps, len(errors), float(np.median(size)), float(np.quantile(size, 0.9)), float(np.median(errors))
    )
