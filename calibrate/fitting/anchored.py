"""A device profile held against a few figures of the target system: what they change, and what they cannot say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from calibrate.anchors import Anchor
from calibrate.fitting.refine import Refined, refine
from calibrate.fitting.robust import Vector
from calibrate.fitting.start import around
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile
from sim.steptime.profile import Frontend

PER_REQUEST_S, PER_PROMPT_TOKEN_S, GUESS = 5e-3, 3e-6, 6.0  # HTTP and tokenisation, within a factor of six


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
    start = with_open_frontend(profile)

    def predict(candidate: DeviceProfile) -> Vector:
        return np.concatenate([anchor.predicted(candidate) for anchor in anchors])

    given = [value for anchor in anchors for value in anchor.given()]
    sigmas = [sigma for anchor in anchors for sigma in anchor.sigmas()]
    refined = refine(start, gpu, predict, given, sigmas=sigmas)
    labels = [f"{i + 1}. {label}" for i, label in enumerate(label for anchor in anchors for label in anchor.labels())]
    before, after = predict(start), predict(refined.profile)
    rows = zip(given, before.tolist(), after.tolist(), strict=True)
    return AnchorFit(refined, dict(zip(labels, rows, strict=True)))


def with_open_frontend(profile: DeviceProfile) -> DeviceProfile:
    """Return the profile with a guess, and room, for work off the GPU where it knows none."""
    if profile.frontend.per_request_s.value:
        return profile
    frontend = Frontend(
        per_request_s=around(PER_REQUEST_S, GUESS, note="HTTP, tokenisation, hashing: nobody measured it alone"),
        per_prompt_token_s=around(PER_PROMPT_TOKEN_S, GUESS),
    )
    return msgspec.structs.replace(profile, frontend=frontend)
