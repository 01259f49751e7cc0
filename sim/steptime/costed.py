"""Prices of steps with what they cost around the forward pass.

Terms that go by a step's tokens and rows alone change the model's own numbers, so stretches of decode steps stay as
fast as they were. The others, by what requests ask for, are added step by step.
"""

from collections.abc import Callable
from dataclasses import replace

from sim.steptime.ahead import StepPrices
from sim.steptime.costed_steps import CostedSteps
from sim.steptime.costs import Costs
from sim.steptime.cuda_graphs import captured_tokens
from sim.steptime.model import StepTimeModel


def costed(
    steps: StepTimeModel, costs: Costs, *, kernels: int, cuda_graph_tokens: int, async_scheduling: bool
) -> StepPrices:
    """Return prices with all terms of `costs`; `steps` itself if there are none.

    `kernels` are launched by a step that no CUDA graph holds; graphs hold up to `cuda_graph_tokens`.
    """
    eager_s = kernels * costs.eager_kernel_s
    if costs.pads_to_cuda_graphs or eager_s:
        linear_s = _launched(steps.linear_s, cuda_graph_tokens, eager_s, pads=costs.pads_to_cuda_graphs)
        steps = replace(steps, linear_s=linear_s)
    host_step_s, host_sequence_s = costs.host_step_s, costs.host_sequence_s
    if not async_scheduling and (host_step_s or host_sequence_s):
        steps = replace(
            steps,
            step_overhead_s=steps.step_overhead_s + host_step_s,
            head_per_sequence_s=steps.head_per_sequence_s + host_sequence_s,
        )
        host_step_s = host_sequence_s = 0.0
    if costs.sampling_sequence_s:
        steps = replace(steps, head_per_sequence_s=steps.head_per_sequence_s + costs.sampling_sequence_s)
    penalty_s = costs.penalty_token_s if costs.penalised_share else 0.0
    structured = bool(costs.structured_share and (costs.structured_step_s or costs.structured_sequence_s))
    if not (host_step_s or host_sequence_s or penalty_s or structured or costs.hashing_token_s):
        return steps
    return CostedSteps(
        steps,
        host_step_s,
        host_sequence_s,
        penalty_s,
        costs.structured_step_s,
        costs.structured_sequence_s,
        costs.hashing_token_s,
    )


def _launched(linear_s: Callable[[int], float], most: int, eager_s: float, *, pads: bool) -> Callable[[int], float]:
    def at(tokens: int) -> float:
        captured = captured_tokens(tokens, most)
        if captured is None:
            return linear_s(tokens) + eager_s
        return linear_s(captured if pads else tokens)

    return at
