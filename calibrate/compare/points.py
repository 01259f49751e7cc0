"""Both sides of every measured load point: what is compared, and what cannot be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calibrate.compare.arrivals import says_how
from calibrate.compare.lengths import place_of
from calibrate.compare.load import SentLoad
from calibrate.compare.regimes import Regime
from calibrate.known import known_model
from calibrate.measured.run import MeasuredRun
from calibrate.validation.e2e_errors import METRICS
from sim.errors import MeasurementError
from sim.setup import Deployment

Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Point:
    """One load point, measured and predicted."""

    run: MeasuredRun
    sent: SentLoad
    regime: Regime
    measured: Metrics
    predicted: Metrics

    @property
    def label(self) -> str:
        """Its load."""
        return self.sent.arrivals.label


def comparable(runs: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[str]]:
    """Return the runs that say something to compare with, by load, and notes on those left out.

    Raises MeasurementError if there is none.
    """
    kept, notes = [], []
    for run in runs:
        if run.completed == 0 or (run.requests and all(request.failed for request in run.requests)):
            notes.append(f"{place_of(run)}: no request completed")
        elif not any(run.metrics.get(metric, 0.0) > 0 for metric in METRICS):
            notes.append(f"{place_of(run)}: it states none of TTFT, TPOT, ITL, E2E or throughput")
        elif not says_how(run):
            notes.append(f"{place_of(run)}: it states neither concurrency, rate, send times nor throughput")
        else:
            kept.append(run)
    if not kept:
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        raise MeasurementError(f"nothing to compare with: {notes[0]}{more}" if notes else "nothing to compare with")
    return kept, [f"left out: {note}" for note in notes]


def unique(runs: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[str]]:
    """Return every load point once, though its file was given twice or with its folder, and notes on those."""
    kept = list({(run.file.resolve(), run.place): run for run in runs}.values())
    again = len(runs) - len(kept)
    return kept, [f"{again} load points are of files given twice: they count once"] if again else []


def mismatches(runs: Sequence[MeasuredRun], base: Deployment) -> list[str]:
    """Return notes on runs of another model than the scenario's."""
    named = dict.fromkeys(run.model for run in runs if run.model)
    return [
        f"measured with model {name}, the scenario's is {base.model.name}" for name in named if not _same(name, base)
    ]


def not_sent(base: Deployment) -> list[str]:
    """Return a note where the scenario has a load beside the measured one: no result says when it was there."""
    if base.scenario.background is None:
        return []
    return ["the scenario's background load is not sent: only what the client measured is"]


def _same(name: str, base: Deployment) -> bool:
    known = known_model(name)
    if known is not None:
        return known.name == base.model.name
    plain = name.rsplit("/", 1)[-1].lower()
    ours = {base.model.name.lower(), base.scenario.model.rstrip("/").rsplit("/", 1)[-1].lower()}
    return any(one in plain or plain in one for one in ours)
