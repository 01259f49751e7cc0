"""Why latency breaks at a load: lift one limit at a time and see which one brings p99 TTFT back.

A cause is found by counterfactual, not by label: the KV cache without bound, any number of running sequences, a
step budget that never binds, a GPU ten times as fast. What is lifted must leave less than a third of the p99.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sim.engine.simulation import EngineSetup
from sim.results.knee import KNEE_RATIO

UNLIMITED_BLOCKS = 1 << 22
UNLIMITED_SEQUENCES = 1 << 20
UNLIMITED_TOKENS = 1 << 22
FASTER = 10.0


def with_unlimited_kv(setup: EngineSetup) -> EngineSetup:
    """Room for every token a run can hold."""
    return replace(setup, num_gpu_blocks=UNLIMITED_BLOCKS)


def with_unlimited_sequences(setup: EngineSetup) -> EngineSetup:
    """No bound on running sequences."""
    return replace(setup, scheduler=replace(setup.scheduler, max_num_seqs=UNLIMITED_SEQUENCES))


def with_unlimited_budget(setup: EngineSetup) -> EngineSetup:
    """Every waiting prompt may be prefilled in one step."""
    return replace(setup, scheduler=replace(setup.scheduler, max_num_batched_tokens=UNLIMITED_TOKENS))


def with_faster_gpu(setup: EngineSetup) -> EngineSetup:
    """All step times divided by ten."""
    steps = setup.steps
    slower = steps.linear_s
    return replace(
        setup,
        steps=replace(
            steps,
            step_overhead_s=steps.step_overhead_s / FASTER,
            linear_s=lambda tokens: slower(tokens) / FASTER,
            head_per_step_s=steps.head_per_step_s / FASTER,
            head_per_sequence_s=steps.head_per_sequence_s / FASTER,
            prefill_s_per_pair=steps.prefill_s_per_pair / FASTER,
            decode_s_per_kv_token=steps.decode_s_per_kv_token / FASTER,
        ),
    )


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

    @property
    def name(self) -> str | None:
        """The first limit, compute last, whose lifting leaves less than a third of the p99."""
        for limit, relieved_s in self.relieved_ttft_p99_s.items():
            if relieved_s * KNEE_RATIO < self.ttft_p99_s:
                return limit
        return None
