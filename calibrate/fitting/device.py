"""From a measurement table of one GPU to its device profile: operations first, then whole steps on top."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd

from calibrate.fitting.evidence import Pricer, StepFigure, step_figures
from calibrate.fitting.groups import small_parts, unfitted
from calibrate.fitting.kernels import Readings, with_kernels
from calibrate.fitting.operations import GroupFit, fit_operations
from calibrate.fitting.refine import Refined, refine
from calibrate.fitting.robust import Vector
from calibrate.fitting.terms import with_terms
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile, SmallSpec
from sim.steptime.profile import Provenance

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """A fitted profile, and everything a reader needs to trust it or not."""

    profile: DeviceProfile
    groups: Sequence[GroupFit]
    figures: Sequence[StepFigure]
    refined: Refined | None  # by whole steps, where the table has some
    kernels: Readings  # of what the attention kernels do
    unfitted: Sequence[str]  # kinds of rows too few to say anything

    @property
    def residuals(self) -> Mapping[str, float]:
        """Median |predicted / measured - 1| of each group, and of whole steps by kind."""
        found = {group.group.name: group.summary["median"] for group in self.groups}
        found |= {question: min(answers.values()) for question, answers in self.kernels.items()}
        for kind, errors in self.step_errors().items():
            found[f"{kind} steps"] = float(np.median(np.abs(errors)))
        return found

    def remarks(self) -> list[str]:
        """Say between which sizes each group was measured, and what the kernels' rows would be off by otherwise."""
        return [
            *(group.measured_range for group in self.groups),
            *(
                f"{question}: " + ", ".join(f"{answer} {error:.0%} off" for answer, error in answers.items())
                for question, answers in self.kernels.items()
            ),
        ]

    def step_errors(self) -> dict[str, Vector]:
        """Return the errors of whole steps by kind: prefill, mixed, decode."""
        if self.refined is None:
            return {}
        kinds = np.array([figure.kind for figure in self.figures])
        return {str(kind): self.refined.residuals[kinds == kind] for kind in np.unique(kinds)}


def fit_device(
    start: DeviceProfile,
    gpu: Gpu,
    table: pd.DataFrame,
    *,
    replicates: int = 100,
    seed: int = 0,
    progress: Progress = lambda _: None,
) -> DeviceFit:
    """Fit every term the table determines; the others keep the start's value, origin and range."""
    profile, fits = with_small_kernels(start, table), []
    for group in fit_operations(profile, gpu, table, replicates=replicates, seed=seed):
        progress(group.group.name)
        fits.append(group)
        profile = with_terms(profile, group.terms)
    profile, kernels = with_kernels(profile, gpu, table)
    figures = list(step_figures(table))
    refined = None
    if figures:
        refined = refine_by_steps(profile, gpu, figures)
        progress("whole steps")
        profile = refined.profile
    return DeviceFit(profile, fits, figures, refined, kernels, list(unfitted(gpu, table)))


def with_small_kernels(profile: DeviceProfile, table: pd.DataFrame) -> DeviceProfile:
    """Return the profile with terms of their own for the small kernels that the table times."""
    shared = profile.composition
    own = SmallSpec(kernel_s=shared.kernel_s, bytes_per_s=shared.elementwise_bytes_per_s)
    timed = {part: profile.small.get(part, own) for part, _ in small_parts(table)}
    return msgspec.structs.replace(profile, small={**profile.small, **timed})


def refine_by_steps(profile: DeviceProfile, gpu: Gpu, figures: Sequence[StepFigure]) -> Refined:
    """Update a profile by whole steps and layers."""

    def predict(candidate: DeviceProfile) -> Vector:
        return np.array(Pricer(candidate).seconds(figures))

    return refine(profile, gpu, predict, [figure.seconds for figure in figures])


def signed(
    profile: DeviceProfile,
    residuals: Mapping[str, float],
    *,
    name: str,
    made_by: str,
    date: str,
    sources: Sequence[str],
    notes: Sequence[str] = (),
) -> DeviceProfile:
    """Return the profile with its provenance filled in."""
    provenance = Provenance(
        kind="fitted",
        made_by=made_by,
        date=date,
        sources=list(dict.fromkeys(sources)),
        residuals={key: round(value, 4) for key, value in residuals.items()},
        notes=list(dict.fromkeys(notes)),
    )
    return msgspec.structs.replace(profile, name=name, provenance=provenance)
