"""The shipped L4 profile: fitted to one-session figures, to all of them, and to nothing else."""

import ast
import inspect
from functools import cache
from typing import Any

import pytest
import yaml

from calibrate import l4_document
from calibrate.l4_document import PUBLISHED, fit, predicted
from sim.catalog import load_gpu, load_model
from sim.steptime.light_speed import bounds
from sim.steptime.profile import SHIPPED, Profile, check_light_speed, load_profile

FILE = SHIPPED / "l4-qwen3-4b-fp8.yaml"
ONE_SESSION = {0.057, 0.388, 0.487, 0.493, 2.5, 0.42}  # founding document 000, rows and bounds of one session
SEVERAL_SESSIONS = {1.06, 1.43, 1.75, 1.18, 1.19, 1.89, 2.31, 1.33, 1.25, 2.16, 1.36, 1.29, 8.93, 38.9, 1.05} | {
    2.25, 25.5, 44.8, 0.68, 5.74, 40.5, 43.2, 0.89, 102.0, 0.32, 2.1, 14, 48
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted() -> Profile:
    """Return the fit, made once."""
    return fit()


@cache
def figures_of_the_shipped_file() -> dict[str, float]:
    """Return the published figures as the shipped profile gives them."""
    return predicted(load_profile("l4-qwen3-4b-fp8"), load_gpu("L4"), load_model("Qwen3-4B"))


@pytest.mark.parametrize("figure", PUBLISHED)
def test_every_one_session_figure_is_reproduced_within_one_percent(figure: str) -> None:
    """From the file as it ships, not from a fresh fit."""
    assert figures_of_the_shipped_file()[figure] == pytest.approx(PUBLISHED[figure], rel=0.01)


def test_the_fit_used_the_one_session_figures_and_no_other() -> None:
    """PUBLISHED holds the document's six figures of one session; no number of a busier row stands in the module."""
    assert set(PUBLISHED.values()) == ONE_SESSION
    assert all(key.startswith(("best_", "session_", "worst_")) for key in PUBLISHED)
    tree = ast.parse(inspect.getsource(l4_document))
    numbers = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not {number for number in numbers if isinstance(number, int | float)} & SEVERAL_SESSIONS


def test_the_shipped_file_is_what_the_module_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Same keys, same words, and numbers to 1e-4: least squares end in other last digits on other machines."""
    l4_document.main()
    assert_same(yaml.safe_load(capsys.readouterr().out), yaml.safe_load(FILE.read_text(encoding="utf-8")), "")


def assert_same(printed: Any, shipped: Any, place: str) -> None:
    """Compare two trees; residuals are differences of nearly equal numbers, so they may move by a rounding step."""
    if isinstance(shipped, dict):
        assert list(printed) == list(shipped), place
        for key, value in shipped.items():
            assert_same(printed[key], value, f"{place}.{key}")
    elif isinstance(shipped, list):
        assert len(printed) == len(shipped), place
        for index, value in enumerate(shipped):
            assert_same(printed[index], value, f"{place}[{index}]")
    elif isinstance(shipped, float):
        assert printed == pytest.approx(shipped, rel=1e-4, abs=1.01e-4 if ".residuals." in place else 0), place
    else:
        assert printed == shipped, place


def test_recorded_residuals_are_the_real_ones() -> None:
    """What the file says of its own errors is what one gets by predicting from its numbers."""
    recorded = load_profile("l4-qwen3-4b-fp8").provenance.residuals
    assert set(recorded) == set(PUBLISHED)
    for figure, given in PUBLISHED.items():
        assert recorded[figure] == pytest.approx(figures_of_the_shipped_file()[figure] / given - 1, abs=1.5e-4)


def test_fit_keeps_light_speed_with_room(fitted: Profile) -> None:
    """Nothing reaches a peak: shares between 40 and 95 % of the data sheet are what kernels get."""
    gpu, model = load_gpu("L4"), load_model("Qwen3-4B")
    check_light_speed(fitted, gpu, model, "fit")
    light = bounds(gpu, model, "fp8")
    slope = (fitted.linear.seconds[2] - fitted.linear.seconds[1]) / (fitted.linear.tokens[2] - fitted.linear.tokens[1])
    shares = {
        "linear flops": light.linear_s_per_token / slope,
        "linear read": light.linear_read_s / fitted.linear.seconds[0],
        "attention": light.pair_16bit_s / fitted.attention["fp8"].prefill_s_per_pair.value,
        "decode": fitted.attention["fp8"].decode_bytes_per_s.value / gpu.bandwidth_bytes_per_s,
        "head": light.head_read_s / fitted.head.per_step_s.value,
    }
    assert all(0.4 < share < 0.95 for share in shares.values()), shares


def test_fit_is_deterministic(fitted: Profile) -> None:
    """Twice the same numbers, to the last bit."""
    assert fit() == fitted


def test_no_term_claims_a_source_it_does_not_have(fitted: Profile) -> None:
    """Only the KV dtype the document measured alone is called fitted; the others are assumed, and say so."""
    for family, attention in fitted.attention.items():
        terms = (attention.prefill_s_per_pair, attention.decode_bytes_per_s)
        assert {term.source for term in terms} == {"fitted" if family == "fp8" else "assumed"}
        assert all(("no one-session figure" in term.note) == (family != "fp8") for term in terms)
    assert all(
        term.low is not None and term.high is not None for term in (fitted.step_overhead_s, fitted.head.per_step_s)
    )
