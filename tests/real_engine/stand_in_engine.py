"""Our own scheduler with known step costs, driven like the real engine: what it records can be predicted exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from batch_shares import shares_of

from sim.engine.batch_shape import batch_shape
from sim.kv.block_pool import BlockPool
from sim.kv.content import ContentTree
from sim.scheduling.continuous import ContinuousScheduler, SchedulerConfig
from sim.scheduling.request import Request
from sim.steptime.profile import Term
from sim.steptime.whole_steps import WholeSteps
from workloads.span import Span


def steps_costing(*seconds: float) -> WholeSteps:
    """Return step times with six given coefficients."""
    step, prefill_step, token, pair, row, kv_token = (Term(value=value, source="assumed") for value in seconds)
    return WholeSteps(
        per_step_s=step,
        per_prefill_step_s=prefill_step,
        per_token_s=token,
        per_prefill_pair_s=pair,
        per_decode_row_s=row,
        per_decode_kv_token_s=kv_token,
    )


CPU_LIKE = steps_costing(5e-3, 2e-3, 1.2e-4, 1.2e-7, 1e-4, 4.5e-7)


class StandInEngine:
    """Schedules as vLLM does and pretends to compute; its answers are token ids like any other."""

    def __init__(self, engine: Mapping[str, Any], steps: WholeSteps = CPU_LIKE, log_sd: float = 0.0) -> None:
        names = ("max_num_batched_tokens", "max_num_seqs", "max_model_len", "block_size")
        self._scheduler = ContinuousScheduler(
            SchedulerConfig(**{name: engine[name] for name in names}), BlockPool(engine["num_gpu_blocks"])
        )
        self._tree = ContentTree(engine["block_size"])
        self._steps, self._log_sd = steps, log_sd
        self._rng = np.random.default_rng(0)
        self._answers: dict[str, list[int]] = {}
        self._count = 0

    def add(self, name: str, prompt: list[int], output_tokens: int) -> None:
        """Queue a request; a token's value is its place on one line of content."""
        answer = self._rng.integers(3, 4096, output_tokens).tolist()
        self._answers[name] = list(answer)
        content = self._tree.content([Span("tokens", token, 1) for token in [*prompt, *answer]])
        self._scheduler.add(Request(name, self._count, len(prompt), output_tokens, content))
        self._count += 1

    def step(self) -> tuple[dict[str, list[int]], dict[str, Any]]:
        """Run one step."""
        batch = self._scheduler.schedule()
        shares = shares_of(batch, self._scheduler)
        shape = batch_shape(batch, self._scheduler, count_shared=False)
        seconds = self._steps.seconds(shape) * float(np.exp(self._log_sd * self._rng.standard_normal()))
        tokens = {entry.request.id: [self._answers[entry.request.id].pop(0)] for entry in shares if entry.samples}
        self._scheduler.process(batch)
        return tokens, {
            "cpu": seconds,
            "wall": seconds,
            "scheduled": {entry.request.id: entry.tokens for entry in shares},
            "hit": {entry.request.id: entry.hit_tokens for entry in batch.admitted},
            "preempted": [request.id for request in batch.preempted],
        }
