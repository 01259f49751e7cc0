"""Why latency breaks at a load: lift one limit at a time and see which one brings p99 TTFT back.

A cause is found by counterfactual, not by label: the KV cache without bound, any number of running sequences, a
step budget that never binds, a GPU ten times as fast. What is lifted must leave less than a third of the p99.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sim.engine.simulation import EngineSetup
from sim.results.knee import KNEE_RATIO
from sim.steptime.ahead import SpedUp

UNLIMITED_KV_TOKENS = 1 << 26  # 67 million, or twice the real pool
UNLIMITED_SEQUENCES = 1 << 20
UNLIMITED_TOKENS = 1 << 22
FASTER = 10.0


def with_unlimited_kv(setup: EngineSetup) -> EngineSetup:
    """Room for every token a run can hold, and none of it kept free."""
    blocks = max(UNLIMITED_KV_TOKENS // setup.scheduler.block_size, 2 * setup.num_gpu_blocks)
    return replace(setup, num_gpu_blocks=blocks, scheduler=replace(setup.scheduler, watermark=0.0))


def with_unlimited_sequences(setup: EngineSetup) -> EngineSetup:
    """No bound on running sequences."""
    return replace(setup, scheduler=replace(setup.scheduler, max_num_seqs=UNLIMITED_SEQUENCES))


def with_unlimited_budget(setup: EngineSetup) -> EngineSetup:
    """Every waiting prompt may be prefilled in one step."""
    return replace(setup, scheduler=replace(setup.scheduler, max_num_batched_tokens=UNLIMITED_TOKENS))


def with_faster_gpu(setup: EngineSetup) -> EngineSetup:
    """All step times divided by ten."""
    return replace(setup, steps=SpedUp(setup.steps, FASTER))


RELIEFS: Mapping[str, Callable[[EngineSetup], EngineSetup]] = {
    "KV cache": with_unlimited_kv,
    "max_num_seqs": with_unlimited_sequences,
    "max_num_batched_tokens": with_unlimited_budget,
    "compute": with_faster_gpu,
}


@dataclass(frozen=True, slots=True)
class Cause:
    """p99 TTFT as it is and with each limit lifted, and which one explains it (None: no single one does)."""

    sessions: int
    ttft_p99_s: float
    relieved_ttft_p99_s: Mapping[str, float]
    past_kv_knee: bool  # then the KV cache is a cause by definition, however the mean over seeds falls

    @property
    def name(self) -> str | None:
        """The first limit, compute last, whose lifting leaves less than a third of the p99."""
        if self.past_kv_knee:
            return "KV cache"
        for limit, relieved_s in self.relieved_ttft_p99_s.items():
            if relieved_s * KNEE_RATIO < self.ttft_p99_s:
                return limit
        return None
