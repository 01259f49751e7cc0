"""A device profile held against a few figures of the target system: what they change, and what they cannot say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.anchors import Anchor
from calibrate.fitting.refine import Refined, refine
from calibrate.fitting.robust import Vector
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile


@dataclass(frozen=True, slots=True)
class AnchorFit:
    """The refined profile, and figure by figure what it says."""

    refined: Refined
    figures: Mapping[str, tuple[float, float, float]]  # label -> given, before, after

    @property
    def profile(self) -> DeviceProfile:
        """The refined profile."""
        return self.refined.profile


def fit_anchors(profile: DeviceProfile, gpu: Gpu, anchors: Sequence[Anchor]) -> AnchorFit:
    """Refine a profile by the figures of all anchors together."""

    def predict(candidate: DeviceProfile) -> Vector:
        return np.concatenate([anchor.predicted(candidate) for anchor in anchors])

    given = [value for anchor in anchors for value in anchor.given()]
    sigmas = [sigma for anchor in anchors for sigma in anchor.sigmas()]
    refined = refine(profile, gpu, predict, given, sigmas=sigmas)
    labels = [f"{i + 1}. {label}" for i, label in enumerate(label for anchor in anchors for label in anchor.labels())]
    before, after = predict(profile), predict(refined.profile)
    rows = zip(given, before.tolist(), after.tolist(), strict=True)
    return AnchorFit(refined, dict(zip(labels, rows, strict=True)))
