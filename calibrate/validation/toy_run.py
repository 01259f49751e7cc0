"""The toy's experiment from end to end: measure, serve a queue for real, simulate it, compare."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from calibrate.timing.machine import open_machine  # before torch, whose threads it pins
from calibrate.validation.toy_queue import POLICIES, QueueFigures, draw_queue

LIMIT = 0.10  # on |simulated / measured - 1| of medians
PROMPT, ANSWER, CONTEXT, ANSWERS = 16, 48, 64, 5
_STEPS_BETWEEN = {"no_kv_cache": 168, "one_at_a_time": 168, "static_batches": 24, "fixed_slots": 24}
_TIMED = 56  # rarely and many, for the queue is cold after each interruption


@dataclass(frozen=True, slots=True)
class ToyResult:
    """Everything the experiment found; seconds."""

    machine: str
    requests: int
    answer_without_cache_s: float
    answer_with_cache_s: float
    same_tokens: bool
    decode_1_row_s: float
    decode_16_rows_s: float
    fit_error: float  # median |curve / measured step - 1|
    measured: dict[str, QueueFigures]
    simulated: dict[str, QueueFigures]

    def errors(self, policy: str) -> dict[str, float]:
        """Return simulated over measured less 1, by figure."""
        ours, real = asdict(self.simulated[policy]), asdict(self.measured[policy])
        return {name: ours[name] / real[name] - 1 for name in real}

    def broken(self) -> list[str]:
        """Return what is beyond the limit, in words."""
        lines = [
            f"{POLICIES[policy]}: {name} is off by {error:+.1%}, allowed {LIMIT:.0%}"
            for policy in self.measured
            for name, error in self.errors(policy).items()
            if abs(error) > LIMIT
        ]
        return lines if self.same_tokens else ["with and without KV cache the tokens differ", *lines]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return asdict(self) | {"errors": {policy: self.errors(policy) for policy in self.measured}}


def experiment(
    device: str, requests: int, seed: int, on_progress: Callable[[float], None] = lambda _share: None
) -> ToyResult:
    """Run it; `on_progress` is told the share that is done. Raises CalibrationError without torch or the device."""
    machine = open_machine(device, "fp32", 1)
    from calibrate.timing.small_transformer_batch import StepBatch
    from calibrate.validation.toy_model import Toy
    from calibrate.validation.toy_queue import run_for_real, simulated
    from calibrate.validation.toy_step_times import Stopwatches, fit_prices

    toy = Toy(machine, seed=seed)
    queue = draw_queue(requests, seed)
    toy.answer(PROMPT, ANSWER, cached=True)  # the first steps of all take longer
    ways = {cached: [toy.answer(PROMPT, ANSWER, cached=cached) for _ in range(ANSWERS)] for cached in (False, True)}
    watches = Stopwatches(toy, seed)
    measured: dict[str, QueueFigures] = {}
    predicted: dict[str, QueueFigures] = {}
    means_s: list[list[float]] = []
    errors: list[float] = []
    for number, policy in enumerate(POLICIES):
        for done, figures in enumerate(run_for_real(policy, queue, toy)):
            if done % _STEPS_BETWEEN[policy] == 0:  # so that both meet the machine in the same mood
                watches.time_some(_TIMED)
                on_progress((number + min(done / (60 * requests), 0.9)) / len(POLICIES))
            if figures is not None:
                measured[policy] = figures
        seconds = watches.take_means_s()
        prices = fit_prices(watches.steps, seconds)
        errors += [
            abs(prices.seconds(step.shape) / real - 1) for step, real in zip(watches.steps, seconds, strict=True)
        ]
        means_s.append(seconds)
        predicted[policy] = simulated(policy, queue, prices)
    known = dict(zip(watches.steps, np.mean(means_s, axis=0).tolist(), strict=True))
    return ToyResult(
        machine=machine.name,
        requests=requests,
        answer_without_cache_s=median(took_s for _, took_s in ways[False]),
        answer_with_cache_s=median(took_s for _, took_s in ways[True]),
        same_tokens=len({tuple(tokens) for answers in ways.values() for tokens, _ in answers}) == 1,
        decode_1_row_s=known[StepBatch(decode_pasts=(CONTEXT,))],
        decode_16_rows_s=known[StepBatch(decode_pasts=(CONTEXT,) * 16)],
        fit_error=median(errors),
        measured=measured,
        simulated=predicted,
    )
