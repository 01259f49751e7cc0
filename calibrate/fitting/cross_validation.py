"""How well whole steps are predicted that the fit did not see: one left out, or a whole model left out."""

from collections.abc import Sequence

import numpy as np

from calibrate.fitting.device import refine_by_steps
from calibrate.fitting.evidence import Pricer, StepFigure
from calibrate.fitting.robust import Vector
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile


def leave_one_out(profile: DeviceProfile, gpu: Gpu, figures: Sequence[StepFigure]) -> Vector:
    """Return predicted / measured - 1 of each figure, refined without it; `profile` knows operations only."""
    return _left_out(profile, gpu, figures, list(range(len(figures))))


def leave_model_out(profile: DeviceProfile, gpu: Gpu, figures: Sequence[StepFigure]) -> Vector:
    """Return the same with all figures of a figure's model left out; with one model, no figure is left to refine by."""
    return _left_out(profile, gpu, figures, [figure.setup.model for figure in figures])


def _left_out(
    profile: DeviceProfile, gpu: Gpu, figures: Sequence[StepFigure], folds: Sequence[int] | Sequence[str]
) -> Vector:
    errors = np.empty(len(figures))
    for fold in dict.fromkeys(folds):
        outside = [i for i, own in enumerate(folds) if own == fold]
        inside = [figure for figure, own in zip(figures, folds, strict=True) if own != fold]
        fitted = refine_by_steps(profile, gpu, inside).profile if inside else profile
        predicted = Pricer(fitted).seconds([figures[i] for i in outside])
        for i, seconds in zip(outside, predicted, strict=True):
            errors[i] = seconds / figures[i].seconds - 1
    return errors
