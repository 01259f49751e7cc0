"""Regimes, errors, limits and client overheads."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.validation.e2e_clients import fit_clients
from calibrate.validation.e2e_errors import ReplayedPoint, error_rows, limit_rows, median_rows
from calibrate.validation.e2e_regimes import AT, BELOW, BEYOND, regime

CALM = {"ttft_p50_s": 0.1, "e2e_mean_s": 2.0, "requests_per_s": 9.8}
POINT = ReplayedPoint("toy_a", "toy", "H100", "Qwen3-0.6B", "roofline", "2 req/s", 2.0, BELOW, {}, {})


def where(measured: dict[str, float], predicted: dict[str, float] | None = None, lowest_ttft_s: float = 0.1) -> str:
    """Return the regime of 1,000 requests offered over 100 s to 64 seats."""
    return regime(CALM | measured, predicted or {}, requests=1000, span_s=100.0, lowest_ttft_s=lowest_ttft_s, seats=64)


@pytest.mark.parametrize(
    ("measured", "predicted", "expected"),
    [
        ({}, {}, BELOW),
        ({"requests_per_s": 9.32}, {}, BELOW),  # 1,000 over 102 s are 9.80 a second, and 95 % of that 9.31
        ({"requests_per_s": 9.30}, {}, BEYOND),
        ({"ttft_p50_s": 0.21}, {}, AT),
        ({"ttft_p50_s": 0.31}, {}, BEYOND),
        ({"requests": 980.0, "failed": 20.0}, {}, BEYOND),
        ({"requests": 995.0, "failed": 5.0}, {}, BELOW),
        ({}, {"kv_usage_peak": 1.0}, AT),
        ({"kv_usage_peak": 0.5}, {"kv_usage_peak": 1.0}, BELOW),  # the measurement knows better
        ({}, {"running_peak": 64.0}, AT),
        ({"ttft_p50_s": 0.1, "e2e_mean_s": 0.15}, {}, BEYOND),  # the lowest load there is, and it mostly waits
    ],
)
def test_the_regime_follows_the_stated_rule(
    measured: dict[str, float], predicted: dict[str, float], expected: str
) -> None:
    """Each bound from both sides."""
    assert where(measured, predicted) == expected


def test_a_closed_loop_has_no_offered_rate_to_fall_short_of() -> None:
    """Only its TTFT can tell."""
    slow = CALM | {"requests_per_s": 0.1}
    assert regime(slow, {}, requests=None, span_s=None, lowest_ttft_s=0.1, seats=64) == BELOW


def test_errors_are_relative_and_medians_are_of_their_size() -> None:
    """-10 % and +30 %: the median of the sizes is 20 %, of the signed 10 %."""
    points = [
        replace(POINT, measured={"ttft_mean_s": 1.0}, predicted={"ttft_mean_s": 0.9, "ttft_p99_s": 4.0}),
        replace(POINT, measured={"ttft_mean_s": 2.0}, predicted={"ttft_mean_s": 2.6}),
    ]
    assert [row["error"] for row in error_rows(points)] == pytest.approx([-0.1, 0.3])
    (row,) = limit_rows(points)
    assert (row.median_error, row.bias, row.held) == (pytest.approx(0.2), pytest.approx(0.1), False)
    (median,) = median_rows(points)
    assert (median["loads"], median["median_abs_error"]) == (2, pytest.approx(0.2))


def test_a_limit_takes_the_first_metric_that_was_measured() -> None:
    """A source without mean TTFTs is held to its medians; one regime's limits leave the others alone."""
    point = replace(POINT, measured={"ttft_p50_s": 1.0}, predicted={"ttft_p50_s": 1.05, "ttft_mean_s": 9.0})
    (row,) = limit_rows([point])
    assert (row.limit.name, row.held) == ("TTFT mean", True)
    (beyond,) = limit_rows([replace(point, regime=BEYOND)])
    assert beyond.limit.name == "TTFT median"
    assert limit_rows([replace(point, regime=AT)]) == []


def test_required_sources_are_also_held_together() -> None:
    """A last group holds the loads of all of them, and of them alone."""
    measured, predicted = {"ttft_mean_s": 1.0}, {"ttft_mean_s": 1.01}
    points = [replace(POINT, source=name, measured=measured, predicted=predicted) for name in ("resid", "lss", "toy")]
    assert [(row.source, row.loads) for row in limit_rows(points)] == [
        ("resid", 1), ("lss", 1), ("toy", 1), ("required sources", 2)
    ]  # fmt: skip


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=8), st.floats(0.0, 0.05), st.floats(0.0, 0.002))
def test_a_constant_overhead_is_found_again(bare_s: list[float], per_request_s: float, per_token_s: float) -> None:
    """Whatever the engine's own times are."""
    points = [
        replace(
            POINT,
            measured={"ttft_mean_s": time_s + per_request_s, "tpot_mean_s": time_s / 10 + per_token_s},
            predicted={"ttft_mean_s": time_s, "tpot_mean_s": time_s / 10},
        )
        for time_s in bare_s
    ]
    client = fit_clients(points)["toy"]
    assert client.per_request_s == pytest.approx(per_request_s, abs=1e-9)


def test_overheads_are_never_negative_and_loads_beyond_the_knee_have_no_say() -> None:
    """A simulation that is too slow is not mended by a client that takes time away."""
    slow = replace(POINT, measured={"ttft_mean_s": 1.0}, predicted={"ttft_mean_s": 2.0})
    jammed = replace(POINT, regime=BEYOND, measured={"ttft_mean_s": 90.0}, predicted={"ttft_mean_s": 2.0})
    assert fit_clients([slow, jammed])["toy"].per_request_s == 0.0
    assert fit_clients([jammed]) == {}
    assert fit_clients([replace(slow, source="lss")]) == {}  # stamped on the engine's clock
