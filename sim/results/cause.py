"""Why latency breaks at a load: lift one limit at a time and see which one brings p99 TTFT back.

A cause is found by counterfactual, not by label: the KV cache without bound, any number of running sequences, a
step budget that never binds, a GPU ten times as fast; for recurrent layers also states that take no KV blocks. What is
lifted must leave less than a third of the p99.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sim.engine.simulation import EngineSetup
from sim.memory.kv_groups import Keeps
from sim.results.knee import KNEE_RATIO
from sim.steptime.ahead import SpedUp

UNLIMITED_KV_TOKENS = 1 << 26  # 67 million, or twice the real pool
UNLIMITED_SEQUENCES = 1 << 20
UNLIMITED_TOKENS = 1 << 22
FASTER = 10.0


def with_unlimited_kv(setup: EngineSetup) -> EngineSetup:
    """Room for every token a run can hold, in every group of layers, and none of it kept free."""
    sizes = [group.block_size for group in setup.kv_groups] or [setup.scheduler.block_size]
    blocks = max(sum(UNLIMITED_KV_TOKENS // size for size in sizes), 2 * setup.num_gpu_blocks)
    return replace(setup, num_gpu_blocks=blocks, scheduler=replace(setup.scheduler, watermark=0.0))


def with_states_apart(setup: EngineSetup) -> EngineSetup:
    """Room elsewhere for the states of recurrent layers; the KV cache is as large as it was."""
    return replace(setup, states_apart=True)


def with_unlimited_sequences(setup: EngineSetup) -> EngineSetup:
    """No bound on running sequences."""
    return replace(setup, scheduler=replace(setup.scheduler, max_num_seqs=UNLIMITED_SEQUENCES))


def with_unlimited_budget(setup: EngineSetup) -> EngineSetup:
    """Every waiting prompt may be prefilled in one step."""
    return replace(setup, scheduler=replace(setup.scheduler, max_num_batched_tokens=UNLIMITED_TOKENS))


def with_faster_gpu(setup: EngineSetup) -> EngineSetup:
    """All step times divided by ten."""
    return replace(setup, steps=SpedUp(setup.steps, FASTER))


STATE_SLOTS = "recurrent state slots"
RELIEFS: Mapping[str, Callable[[EngineSetup], EngineSetup]] = {
    STATE_SLOTS: with_states_apart,  # before the KV cache, whose blocks they take: the narrower cause is named
    "KV cache": with_unlimited_kv,
    "max_num_seqs": with_unlimited_sequences,
    "max_num_batched_tokens": with_unlimited_budget,
    "compute": with_faster_gpu,
}


def limits_of(setup: EngineSetup) -> list[str]:
    """Return the limits that a deployment has."""
    has_states = any(group.keeps is Keeps.STATE for group in setup.kv_groups)
    return [limit for limit in RELIEFS if limit != STATE_SLOTS or has_states]


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
        limits = self.relieved_ttft_p99_s
        if self.past_kv_knee:
            return STATE_SLOTS if self._explains(limits.get(STATE_SLOTS, math.inf)) else "KV cache"
        return next((limit for limit, relieved_s in limits.items() if self._explains(relieved_s)), None)

    def _explains(self, relieved_s: float) -> bool:
        return relieved_s * KNEE_RATIO < self.ttft_p99_s
