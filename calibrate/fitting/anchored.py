"""A device profile held against a few figures of the target system: what they change, and what they cannot say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.anchors import Anchor
from calibrate.fitting.refine import Refined, refine
from calibrate.fitting.robust import Vector
from sim.catalog import Gpu
from sim.errors import ProfileError
from sim.steptime.device import DeviceProfile

FAR, IMPOSSIBLE = 3.0, 1.5  # stated errors; predicted over given seconds


@dataclass(frozen=True, slots=True)
class AnchorFit:
    """The refined profile, and figure by figure what it says."""

    refined: Refined
    figures: Mapping[str, tuple[float, float, float]]  # label -> given, before, after
    sigmas: Sequence[float]  # how far each may be off, as stated

    @property
    def profile(self) -> DeviceProfile:
        """The refined profile."""
        return self.refined.profile

    def missed(self) -> list[str]:
        """Name the figures that no profile in range comes near, in words."""
        return [
            f"figure {label} is {after / given - 1:+.0%} off, more than {FAR:g} times its stated error of {sigma:.0%}: "
            "check its settings before relying on this profile"
            for (label, (given, _, after)), sigma in zip(self.figures.items(), self.sigmas, strict=True)
            if abs(np.log(after / given)) > FAR * sigma
        ]


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
    found = AnchorFit(refined, dict(zip(labels, rows, strict=True)), sigmas)
    for label, (value, _, reached) in found.figures.items():
        if reached / value > IMPOSSIBLE and not label.endswith("/s"):
            raise ProfileError(
                f"figure {label}: {value:.3g} s is out of reach: {gpu.name} at the limits of its data sheet takes "
                f"{reached:.3g} s; are weight_dtype, tensor_parallel_size and the sizes right?"
            )
    return found
