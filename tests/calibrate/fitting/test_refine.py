"""Whole steps on top of operations: they move what they can tell, say so of the rest, and physics holds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrate.fitting.device import refine_by_steps
from calibrate.fitting.evidence import GRAPHED, Pricer, Setup, StepFigure
from calibrate.fitting.limits import limits_of
from calibrate.fitting.refine import Refined
from calibrate.fitting.start import assumed_device
from calibrate.fitting.terms import terms_of, with_values
from sim.catalog import load_gpu
from sim.steptime.batch import BatchShape
from sim.steptime.device import DeviceProfile, check_peaks

L4 = load_gpu("L4")
START = assumed_device(L4)
SETUP = Setup("Qwen3-4B", "bf16", "bf16", 1, GRAPHED["cuda_graph"])
SHIFT = {  # a device with less of everything than assumed
    "linear.bf16.bytes_per_s": 215e9,
    "attention.bf16.decode_bytes_per_s": 180e9,
    "attention.bf16.prefill_flops_per_s": 48e12,
}


def batches() -> list[BatchShape]:
    """Return decode steps on short and long contexts, and prefills at depth."""
    decodes = [BatchShape(rows, rows, 0.0, rows, rows * past) for rows in (1, 8, 64) for past in (100, 2000, 16000)]
    chunks = [(new, past) for new in (16, 512, 8192) for past in (0, 4000, 32000)]
    return decodes + [BatchShape(n, 1, n * (past + (n + 1) / 2), 0, 0, holds_prefill=True) for n, past in chunks]


def figures(profile: DeviceProfile, factors: Sequence[float] | float = 1.0) -> list[StepFigure]:
    """Return every batch as a measured step that takes what a profile says, times a factor."""
    blank = [StepFigure(SETUP, batch, 1.0, whole_step=True, label="", kind="") for batch in batches()]
    seconds = np.array(Pricer(profile).seconds(blank)) * factors
    return [replace(figure, seconds=float(time)) for figure, time in zip(blank, seconds, strict=True)]


def values(profile: DeviceProfile) -> dict[str, float]:
    """Return the value of every term."""
    return {name: term.value for name, term in terms_of(profile)}


def check_physics(refined: Refined) -> None:
    """Check that a refined profile is one a GPU can have, with ranges around its values."""
    check_peaks(refined.profile, L4, "refined")
    for name, term in terms_of(refined.profile):
        low, high = limits_of(name, L4)
        assert low <= term.value <= high * (1 + 1e-12), name
        assert term.low is None or term.high is None or term.low <= term.value <= term.high, name
    assert np.isfinite(list(values(refined.profile).values())).all()
    assert np.isfinite(list(refined.kept_width.values())).all()
    assert np.isfinite(refined.residuals).all()


@pytest.fixture(scope="module")
def shifted() -> Refined:
    """Return the assumptions refined by steps of the shifted device."""
    return refine_by_steps(START, L4, figures(with_values(START, SHIFT)))


def test_steps_of_another_device_are_met(shifted: Refined) -> None:
    """Within 2 %, where the assumptions are up to 40 % off."""
    before = np.array(Pricer(START).seconds(figures(with_values(START, SHIFT))))
    after = np.array([figure.seconds for figure in figures(with_values(START, SHIFT))])
    assert np.abs(before / after - 1).max() > 0.2
    assert np.abs(shifted.residuals).max() < 0.02
    check_physics(shifted)


@pytest.mark.parametrize("name", ["linear.bf16.bytes_per_s", "attention.bf16.decode_bytes_per_s"])
def test_what_steps_determine_moves_to_the_truth_and_narrows(shifted: Refined, name: str) -> None:
    """Decode steps on long contexts and of one row say what both bandwidths are."""
    term = dict(terms_of(shifted.profile))[name]
    assert shifted.verdict(name) == "determined"
    assert term.value == pytest.approx(SHIFT[name], rel=0.03)
    assert term.low is not None
    assert term.high is not None
    assert term.low <= SHIFT[name] <= term.high
    assert term.source == "fitted"


def test_rate_and_slowdown_are_told_apart_only_by_their_priors(shifted: Refined) -> None:
    """Their ratio is what prefills see: it comes back, either alone is partly determined."""
    after = values(shifted.profile)
    ratio = after["attention.bf16.prefill_flops_per_s"] / after["composition.flops_slowdown"]
    truth = SHIFT["attention.bf16.prefill_flops_per_s"] / values(START)["composition.flops_slowdown"]
    assert ratio == pytest.approx(truth, rel=0.03)
    assert shifted.verdict("composition.flops_slowdown") != "determined"


def test_what_no_step_meets_is_left_as_it_was(shifted: Refined) -> None:
    """Other number types, experts, links and the frontend: width 1, same term, origin kept."""
    before, after = dict(terms_of(START)), dict(terms_of(shifted.profile))
    others = [
        name for name in shifted.kept_width if name.startswith(("linear.fp8", "attention.fp8", "experts", "links"))
    ]
    assert len(others) > 20
    for name in others:
        assert shifted.kept_width[name] == 1.0
        assert shifted.verdict(name) == "not determined"
        assert after[name] == before[name]


@pytest.mark.parametrize("rounding", [0.0, 3e-11, 1e-10, 1e-9, 1e-4])
def test_steps_that_agree_move_nothing_and_tell_as_much(rounding: float) -> None:
    """However exactly they agree: what a step hardly depends on stays undetermined."""
    refined = refine_by_steps(START, L4, figures(START, 1 + rounding))
    for name, value in values(START).items():
        assert values(refined.profile)[name] == pytest.approx(value, rel=0.01)
    exact = refine_by_steps(START, L4, figures(START))
    assert refined.kept_width == pytest.approx(dict(exact.kept_width), abs=0.01)
    for name in ("composition.sequence_s", "attention.bf16.decode_row_s"):
        assert refined.kept_width[name] == pytest.approx(1.0, abs=0.05)
    assert refined.verdict("attention.bf16.decode_bytes_per_s") == "determined"
    check_physics(refined)


@pytest.mark.parametrize("factor", [0.05, 0.3, 5.0, 100.0])
def test_steps_that_no_such_gpu_takes_break_nothing(factor: float) -> None:
    """Faster than light or absurdly slow: rates end at their limits, and the errors say that it does not fit."""
    refined = refine_by_steps(START, L4, figures(START, factor))
    check_physics(refined)
    if factor < 1:
        assert np.median(refined.residuals) > 0.3


@settings(max_examples=25)
@given(st.lists(st.floats(0.2, 5.0), min_size=18, max_size=18))
def test_steps_that_contradict_each_other_break_nothing(factors: list[float]) -> None:
    """Any time for any step within a factor of five leaves a possible, finite profile."""
    check_physics(refine_by_steps(START, L4, figures(START, factors)))


def test_one_step_measured_wrong_hardly_bends_the_rest() -> None:
    """Ten times too long: what its neighbours say of the bandwidth moves by less than 3 %."""
    factors = np.ones(len(batches()))
    factors[4] = 10.0
    clean, bent = (refine_by_steps(START, L4, figures(START, one)).profile for one in (1.0, factors))
    name = "attention.bf16.decode_bytes_per_s"
    assert values(bent)[name] == pytest.approx(values(clean)[name], rel=0.03)
