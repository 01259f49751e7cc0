"""How well whole steps of a GPU are predicted, by profiles that did not see them and by one as it stands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from calibrate.fitting.cross_validation import leave_model_out, leave_one_out
from calibrate.fitting.device import with_small_kernels
from calibrate.fitting.evidence import Pricer, StepFigure, step_figures
from calibrate.fitting.operations import fit_operations
from calibrate.fitting.robust import Vector
from calibrate.fitting.start import assumed_device
from calibrate.fitting.terms import with_terms
from calibrate.importers.conversion import convert_files
from calibrate.known import catalog_name
from calibrate.light_check import bound_s
from sim.catalog import load_gpu
from sim.errors import MeasurementError, ProfileError
from sim.steptime.device import DeviceProfile
from sim.steptime.pricing import load_any

WHOLE = "step"
LIMITS = {"one left out": 0.05, "its model left out": 0.12}  # median |error|
REPLICATES = 20  # only widths of priors depend on it


@dataclass(frozen=True, slots=True)
class StepCheck:
    """The steps of one GPU and their errors, predicted / measured - 1, by what the profile had not seen."""

    gpu: str
    profile: str
    figures: Sequence[StepFigure]
    errors: dict[str, Vector]
    bound_s: Vector  # what the hardware needs at its peaks; nan where unknown

    @property
    def models(self) -> list[str]:
        """Models whose steps there are."""
        return sorted({figure.setup.model for figure in self.figures})

    def of_kind(self, kind: str) -> list[int]:
        """Return which figures are prefill, mixed or decode steps."""
        return [i for i, figure in enumerate(self.figures) if figure.kind == kind]

    def faster_than_light(self) -> int:
        """Count predicted steps below the bound, whichever way they were predicted."""
        measured = np.array([figure.seconds for figure in self.figures])
        return max(int(np.sum(measured * (1 + errors) < self.bound_s)) for errors in self.errors.values())

    def judged(self, what: str) -> bool:
        """Say whether a limit applies: with one model on a GPU, leaving it out leaves no step at all."""
        return what in LIMITS and (what != "its model left out" or len(self.models) > 1)

    def broken(self) -> list[str]:
        """Return the limits that do not hold, in words."""
        medians = {what: float(np.median(np.abs(errors))) for what, errors in self.errors.items() if self.judged(what)}
        found = [
            f"{self.gpu}, {what}: median {median:.1%} of {len(self.figures)} steps, limit {LIMITS[what]:.0%}"
            for what, median in medians.items()
            if median > LIMITS[what]
        ]
        fast = self.faster_than_light()
        return [*found, *([f"{self.gpu}: {fast} predicted steps are faster than light"] if fast else [])]


def cross_check(tables: Sequence[Path], *, seed: int = 0) -> Iterator[StepCheck]:
    """Yield, for each GPU with whole steps, the errors with one step and with one model left out."""
    table = _read(tables)
    for name, own in _by_gpu(table):
        gpu = load_gpu(name)
        profile = with_small_kernels(assumed_device(gpu), own)
        for group in fit_operations(profile, gpu, own, replicates=REPLICATES, seed=seed):
            profile = with_terms(profile, group.terms)
        steps = own[own["operation"] == WHOLE]
        figures = list(step_figures(steps))
        errors = {
            "one left out": leave_one_out(profile, gpu, figures),
            "its model left out": leave_model_out(profile, gpu, figures),
        }
        yield StepCheck(gpu.name, "refined without what it predicts", figures, errors, bound_s(steps))


def check_profile(tables: Sequence[Path], names: Sequence[str]) -> Iterator[StepCheck]:
    """Yield, for each device profile, the errors of its GPU's steps; raises ProfileError for one of a single model."""
    table = _read(tables)
    for name in names:
        profile = load_any(name)
        if not isinstance(profile, DeviceProfile):
            raise ProfileError(f"--profile {name}: is of one model, {profile.model}; give a device profile")
        steps = table[(table["operation"] == WHOLE) & (table["gpu"] == profile.gpu)]
        if not len(steps):
            raise MeasurementError(f"--profile {name}: the tables hold no whole step of {profile.gpu}")
        figures = list(step_figures(steps))
        predicted = np.array(Pricer(profile).seconds(figures))
        measured = np.array([figure.seconds for figure in figures])
        errors = {"as it is": predicted / measured - 1}
        yield StepCheck(profile.gpu, profile.name, figures, errors, bound_s(steps))


def _read(tables: Sequence[Path]) -> pd.DataFrame:
    table = pd.concat([one.table.frame for one in convert_files(tables)], ignore_index=True)
    table = table.assign(gpu=table["gpu"].map(catalog_name))
    if not (table["operation"] == WHOLE).any():
        raise MeasurementError(f"{tables[0]}: no whole step in the tables; operations alone cannot be validated here")
    return table


def _by_gpu(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    with_steps = table.loc[table["operation"] == WHOLE, "gpu"].unique()
    for name in with_steps:
        yield str(name), table[table["gpu"] == name]
