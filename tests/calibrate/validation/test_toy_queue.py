"""The toy: its curve, its two ways to the same tokens, and a queue that is served as it is simulated."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from calibrate.timing.machine import open_machine
from calibrate.timing.small_transformer_batch import Chunk, StepBatch
from calibrate.validation import toy_run, toy_step_times
from calibrate.validation.toy_model import Seat, Toy
from calibrate.validation.toy_queue import POLICIES, Asked, draw_queue, run_for_real, simulated
from calibrate.validation.toy_run import ToyResult
from calibrate.validation.toy_step_times import ToyPrices, fit_prices, measured_steps
from sim.cli import main


def _planted() -> ToyPrices:
    """Return a ms a step, 0.1 a row with a bend at 16, a prompt's own cost, attention."""
    rows = [1.1, 1.2, 1.4, 1.8, 2.2, 2.6, 3.4, 5.0, 8.2, 14.6, 27.4]
    return ToyPrices(np.array([*rows, 0.05, 1e-4, 0.2, 0.02, 1e-3]) * 1e-3)


class _PricedToy:
    """Takes in batches as the toy does and charges what the prices say: no clock."""

    def seat(self, prompt_tokens: int) -> Seat:
        """Return a seat with as many tokens."""
        return Seat(None, [0] * prompt_tokens)  # type: ignore[arg-type]  # nothing is stored

    def leave(self, seat: Seat) -> None:
        """Take no note."""

    def step(self, chunks: Sequence[tuple[Seat, Chunk]], rows: Sequence[tuple[Seat, int]]) -> tuple[list[int], float]:
        """Return tokens and the price."""
        batch = StepBatch(tuple(chunk for _, chunk in chunks), tuple(past for _, past in rows))
        return [1] * len(batch.requests), _planted().seconds(batch.shape)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_queue_is_served_as_it_is_simulated(policy: str) -> None:
    """With the same prices the loop around the toy and the engine give the same times: only seconds may differ."""
    queue = draw_queue(40, 3)
    *_, served = run_for_real(policy, queue, _PricedToy())  # type: ignore[arg-type]  # stands in for the toy
    assert served is not None
    found = simulated(policy, queue, _planted())
    for name in ("ttft_p50_s", "ttft_p95_s", "all_done_s", "output_tokens_per_s"):
        assert getattr(found, name) == pytest.approx(getattr(served, name), rel=2e-3)


def test_the_curve_finds_planted_prices_again() -> None:
    """Through every measured step, and at sizes in between."""
    steps, planted = measured_steps(), _planted()
    fitted = fit_prices(steps, [planted.seconds(step.shape) for step in steps])
    for step in (*steps, StepBatch((Chunk(27, 0),), (50,) * 11), StepBatch(decode_pasts=(30,) * 5)):
        assert fitted.seconds(step.shape) == pytest.approx(planted.seconds(step.shape), rel=0.03)


def test_with_and_without_a_cache_the_tokens_are_the_same() -> None:
    """As the founding document's, but in torch: a cache changes what is computed, never what comes out."""
    toy = Toy(open_machine("cpu", "fp32", 1))
    answers = [toy.answer(16, 24, cached=cached)[0] for cached in (False, True)]
    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 1


def test_the_command_compares_all_four_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few requests: what it says is complete, whatever the machine's mood."""
    monkeypatch.setattr(toy_run, "_STEPS_BETWEEN", dict.fromkeys(POLICIES, 400))
    monkeypatch.setattr(toy_step_times, "_WARM_UP_S", 1e-3)
    monkeypatch.setattr(toy_run, "draw_queue", lambda count, _seed: [Asked(8 + number, 6) for number in range(count)])
    result = CliRunner().invoke(main, ["validate", "toy", "--requests", "16", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["same_tokens"]
    assert set(found["errors"]) == set(found["measured"]) == set(POLICIES)
    assert found["answer_without_cache_s"] > found["answer_with_cache_s"] > 0
    assert found["measured"]["no_kv_cache"]["ttft_p50_s"] > found["measured"]["fixed_slots"]["ttft_p50_s"]


def test_a_broken_limit_is_said_in_words() -> None:
    """And other tokens, too."""
    queue = draw_queue(16, 0)
    fast = {policy: simulated(policy, queue, _planted()) for policy in POLICIES}
    slow = {policy: simulated(policy, queue, ToyPrices(_planted().weights * 1.2)) for policy in POLICIES}
    result = ToyResult("here", 16, 2.0, 1.0, same_tokens=False, decode_1_row_s=1.0, decode_16_rows_s=2.0, fit_error=0.0,
                       measured=fast, simulated=slow)  # fmt: skip
    assert result.broken()[0] == "with and without KV cache the tokens differ"
    assert len(result.broken()) == 1 + 4 * 4
