"""Anchors: what a profile says to each kind of figure, by hand, and every mistake in a file as one line."""

from pathlib import Path

import numpy as np
import pytest
from device_profiles import round_numbers

from calibrate.anchors import LoneSession, Steady, Step, Tpot, Ttft, load_anchor
from calibrate.fitting.anchored import fit_anchors
from calibrate.fitting.terms import terms_of
from calibrate.one_session import FrontendTimes
from sim.catalog import load_gpu
from sim.errors import ProfileError
from sim.steptime.batch import BatchShape
from sim.steptime.model import StepTimeModel

FIGURES = Path(__file__).parents[2] / "calibrate" / "figures"
STEPS = StepTimeModel(  # a second a step, and round numbers for everything else
    step_overhead_s=1.0,
    linear_s=lambda tokens: 0.01 * tokens,
    head_per_step_s=0.25,
    head_per_sequence_s=0.125,
    prefill_s_per_pair=1e-4,
    decode_s_per_kv_token=1e-3,
    prefill_tile_rows=1,
    shared_tokens_read_once=0.0,
)
FRONTEND = FrontendTimes(per_request_s=0.5, per_prompt_token_s=0.002)
HEAD_S = 0.25 + 0.125
BUDGET = 100


def test_ttft_is_the_frontend_and_every_chunk_of_the_budget() -> None:
    """150 new on 50 in chunks of 100 and 50; only the last samples."""
    first, second = (100 * (50 + 101 / 2), 50 * (150 + 51 / 2))
    steps_s = (1 + 1.0 + 1e-4 * first) + (1 + 0.5 + 1e-4 * second + HEAD_S)
    figure = Ttft(cached_tokens=50, new_tokens=150, seconds=9.0)
    assert figure.predicted(STEPS, FRONTEND, BUDGET) == pytest.approx([0.5 + 0.002 * 200 + steps_s])
    without = Ttft(cached_tokens=50, new_tokens=150, seconds=9.0, frontend_s=0.25)
    assert without.predicted(STEPS, FRONTEND, BUDGET) == pytest.approx([0.25 + steps_s])


def test_tpot_is_one_decode_step() -> None:
    """Four rows on 300 tokens each."""
    expected = 1 + 0.04 + 1e-3 * 1200 + 0.25 + 4 * 0.125
    figure = Tpot(context_tokens=300, decode_rows=4, seconds=9.0)
    assert figure.predicted(STEPS, FRONTEND, BUDGET) == pytest.approx([expected])


def test_a_step_holds_prefills_and_decode_rows_together() -> None:
    """Two requests of 30 on 100, and 3 rows that attend to 41 tokens each, through the prefill kernel."""
    pairs = 60 * (100 + 31 / 2)
    expected = 1 + 0.63 + 1e-4 * pairs + 1e-3 * 3 * 41 + 0.25 + 5 * 0.125
    figure = Step(prefill_requests=2, new_tokens=30, past_tokens=100, decode_rows=3, decode_past_tokens=40, seconds=9.0)
    assert figure.predicted(STEPS, FRONTEND, BUDGET) == pytest.approx([expected])


def test_a_lone_session_is_its_turns_one_after_the_other() -> None:
    """Two turns of 40 new and 3 out on a prefix of 10: contexts of 0, then 43 more; percentiles over both."""

    def turn(cached: int) -> tuple[float, float]:
        pairs = 40 * (cached + 41 / 2)
        ttft = 0.5 + 0.002 * (cached + 40) + 1 + 0.4 + 1e-4 * pairs + HEAD_S
        return ttft, sum(1 + 0.01 + 1e-3 * (cached + 40 + i) + HEAD_S for i in (1, 2))

    (first, first_out), (second, second_out) = turn(10), turn(53)
    figure = LoneSession(
        shared_prefix_tokens=10, turns=2, new_tokens=40, output_tokens=3, ttft_p50_s=9.0, requests_per_s=1.0
    )
    p50, per_s = figure.predicted(STEPS, FRONTEND, BUDGET)
    assert p50 == pytest.approx((first + second) / 2)
    assert per_s == pytest.approx(2 / (first + first_out + second + second_out))
    assert figure.given() == [9.0, 1.0]


def test_a_steady_stream_is_littles_law_and_the_waits_of_its_prefills() -> None:
    """0.1 requests a second of 20 tokens out: TPOT and rows fixed by each other, a chunk of 60 in their midst."""
    figure = Steady(requests_per_s=0.1, input_tokens=200, uncached_tokens=60, output_tokens=20, tpot_s=2.0)
    (tpot,) = figure.predicted(STEPS, FRONTEND, BUDGET)
    rows = 0.1 * 20 * tpot
    decode_s = 1 + 0.01 * rows + 1e-3 * rows * 210 + 0.25 + 0.125 * rows
    wait_s = 0.01 * 60 + 1e-4 * 60 * (140 + 61 / 2) + 0.125
    assert rows > 2
    assert tpot == pytest.approx(decode_s / (1 - 0.1 * wait_s), rel=1e-4)


def test_a_steady_stream_is_predicted_from_the_profile_and_not_from_the_figure() -> None:
    """Whatever TPOT is claimed; more requests never make it shorter, and an overload stays finite."""
    claimed = [
        Steady(requests_per_s=0.1, input_tokens=200, uncached_tokens=60, output_tokens=20, tpot_s=seconds)
        for seconds in (0.5, 2.0, 8.0)
    ]
    predicted = [figure.predicted(STEPS, FRONTEND, BUDGET)[0] for figure in claimed]
    assert max(predicted) == min(predicted)
    rising = [
        Steady(requests_per_s=rate, input_tokens=200, uncached_tokens=60, output_tokens=20, tpot_s=0.1)
        for rate in (0.001, 0.05, 0.1, 0.3, 100)
    ]
    seconds = [figure.predicted(STEPS, FRONTEND, BUDGET)[0] for figure in rising]
    assert np.isfinite(seconds).all()
    assert seconds == sorted(seconds)


GOOD = """gpu: L4
model: Qwen3-4B
weight_dtype: fp8
kv_cache_dtype: fp8
figures:
  - {kind: tpot, context_tokens: 8000, seconds: 0.021}
  - {kind: session, turns: 12, new_tokens: 1067, output_tokens: 75, ttft_p50_s: 0.388, requests_per_s: 0.42}
"""
STEADY = "{kind: steady, requests_per_s: 1, input_tokens: 10, uncached_tokens: 11, output_tokens: 9, tpot_s: 0.1}"
TPOT = "{kind: tpot, context_tokens: 8000, seconds: 0.021}"
WRONG = {
    "gpu: L4": [("gpu: L44", ":1: gpu 'L44' is not in the catalog (did you mean 'L4'?)"), ("", "gpu is required")],
    "model: Qwen3-4B": [("model: Qwen3-4C", ":2: model 'Qwen3-4C'"), ("modle: Qwen3-4B", "did you mean 'model'?")],
    "weight_dtype: fp8": [("weight_dtype: fp9", ":3: weight_dtype 'fp9' is not one of")],
    "kv_cache_dtype: fp8": [("kv_cache_dtype: fp9", ":4: kv_cache_dtype 'fp9' is not one of")],
    "figures:": [("figures: []\nrest:", ":5: figures must have at least 1 item")],
    TPOT: [
        ("{kind: tpto, context_tokens: 1, seconds: 1}", ":6: figures[0].kind"),
        ("{context_tokens: 1, seconds: 1}", ":6: figures[0].kind is required"),
        ("{kind: tpot, context_token: 8000, seconds: 0.021}", "did you mean 'context_tokens'?"),
        ("{kind: tpot, context_tokens: 8000}", ":6: figures[0].seconds is required but missing"),
        ("{kind: tpot, context_tokens: 0, seconds: 0.021}", ":6: figures[0].context_tokens 0 must be >= 1"),
        ("{kind: tpot, context_tokens: 8000, seconds: 0}", ":6: figures[0].seconds 0 must be > 0"),
        ("{kind: tpot, context_tokens: 8000, seconds: -1}", ":6: figures[0].seconds -1 must be > 0"),
        ("{kind: tpot, context_tokens: 8000, seconds: .nan}", ":6: figures[0].seconds nan must be a finite number"),
        ("{kind: tpot, context_tokens: 8000, seconds: 21000}", ":6: figures[0].seconds 21000 must be <= 10000"),
        ("{kind: tpot, context_tokens: 8000, seconds: fast}", ":6: figures[0].seconds expected a number, got 'fast'"),
        ("{kind: tpot, context_tokens: 8000, seconds: 1, error: 0}", ":6: figures[0].error 0 must be >= 0.001"),
        ("{kind: step, seconds: 1}", ":6: figures[0]: holds neither prefill tokens nor decode rows"),
        ("{kind: session, turns: 1, new_tokens: 1, output_tokens: 1}", ":6: figures[0]: needs one of ttft_p50_s"),
        (STEADY, ":6: figures[0]: uncached_tokens 11 are more than input_tokens 10"),
        ("{kind: tpot, kind: tpot}", ":6"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "instead", "said"), [(line, *one) for line, several in WRONG.items() for one in several]
)
def test_a_mistake_in_an_anchor_is_one_line(tmp_path: Path, line: str, instead: str, said: str) -> None:
    """File and line, key, value and rule."""
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(line, instead, 1), encoding="utf-8")
    with pytest.raises(ProfileError) as caught:
        load_anchor(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert said in message
    assert "\n" not in message


def test_every_figure_has_its_label_error_and_prediction(tmp_path: Path) -> None:
    """A session with two figures counts twice, in the same order everywhere."""
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("seconds: 0.021", "seconds: 0.021, error: 0.1"), encoding="utf-8")
    anchor = load_anchor(path)
    assert anchor.given() == [0.021, 0.388, 0.42]
    assert anchor.sigmas() == [0.1, 0.03, 0.03]
    assert len(anchor.labels()) == len(anchor.predicted(round_numbers())) == 3


def test_figures_of_a_shifted_device_move_the_profile_there(tmp_path: Path) -> None:
    """A TPOT a fifth above what the profile says slows reading down; each figure comes with before and after."""
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.split("  - {kind: session", maxsplit=1)[0], encoding="utf-8")
    anchor, profile = load_anchor(path), round_numbers()
    (before,) = anchor.predicted(profile)
    path.write_text(path.read_text(encoding="utf-8").replace("0.021", f"{1.2 * before:.6f}"), encoding="utf-8")
    fit = fit_anchors(profile, load_gpu("L4"), [load_anchor(path)])
    ((given, was, now),) = fit.figures.values()
    assert was == pytest.approx(before)
    assert given == pytest.approx(1.2 * before, rel=1e-4)
    assert now == pytest.approx(given, rel=0.02)
    old, new = dict(terms_of(profile)), dict(terms_of(fit.profile))
    assert new["linear.fp8.bytes_per_s"].value < old["linear.fp8.bytes_per_s"].value
    assert new["linear.bf16.flops_per_s"].value == pytest.approx(old["linear.bf16.flops_per_s"].value, rel=0.02)


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_figures_can_be_read_and_are_named_after_their_gpu(path: Path) -> None:
    """And say where they are from."""
    anchor = load_anchor(path)
    assert anchor.source
    assert path.stem.startswith(anchor.gpu.lower().replace(" ", "-"))


def test_a_mixed_step_of_an_anchor_pays_for_tiles() -> None:
    """A decode row beside a prefill costs what the step-time model says, not a decode-only step's price."""
    figure = Step(prefill_requests=1, new_tokens=10, decode_rows=1, decode_past_tokens=999, seconds=1.0)
    tiles = StepTimeModel(1.0, lambda _: 0.0, 0.0, 0.0, 1e-4, 1e-3, 64, 0.0)
    batch = BatchShape(11, 2, 55.0, 1, 1000, holds_prefill=True)
    assert figure.predicted(tiles, FRONTEND, BUDGET) == [tiles.seconds(batch)] == pytest.approx([1 + 55e-4 + 6.4])
