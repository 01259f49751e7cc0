"""Single figures: what a failed one says."""

import math

import pytest

from sim.check_spec import FigureCheck
from sim.figures import Figure

CHECK = FigureCheck("ttft_p50_s", sessions=7, published=2.0, error_max=0.1, what="TTFT p50 of seven")


def test_a_figure_off_says_by_how_much() -> None:
    """And what was asked."""
    figure = Figure(CHECK, 3.0)
    assert not figure.met
    assert figure.failure == "TTFT p50 of seven: 3 s, asked is 2 s ± 10%, off by +50.0%"


@pytest.mark.parametrize("check", [CHECK, FigureCheck("preemptions", over="as it is", high=0.5, what="of none")])
def test_a_figure_that_is_not_known_fails_and_says_so(check: FigureCheck) -> None:
    """A load that was not simulated, or a ratio to zero, is no error of NaN per cent."""
    figure = Figure(check, math.nan)
    assert not figure.met
    assert "not known (no such load was simulated" in figure.failure
    assert "nan" not in figure.failure
