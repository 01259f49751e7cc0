import io
import math
from typing import Any

import pytest
from rich.console import Console, RenderableType

from sim.report.tables import points_table, published_table, sensitivity_table
from sim.results.published_errors import cell_errors, median_error, published_cells

Rows = list[dict[str, Any]]


def shown(renderable: RenderableType, width: int, **settings: Any) -> str:
    """Return what a console of some width prints."""
    file = io.StringIO()
    Console(file=file, width=width, **settings).print(renderable)
    return file.getvalue()


def test_errors_are_relative_to_the_published_figure() -> None:
    """(1.2 - 1.0) / 1.0 and (3.0 - 4.0) / 4.0, by hand."""
    cells = cell_errors(
        [{"sessions": 2, "ttft_p50_s": 1.2, "requests_per_s": 3.0}],
        [{"sessions": 2, "ttft_p50_s": 1.0, "requests_per_s": 4.0}],
    )
    assert [(cell.metric, cell.predicted, cell.published) for cell in cells] == [
        ("ttft_p50_s", 1.2, 1.0),
        ("requests_per_s", 3.0, 4.0),
    ]
    assert [cell.error for cell in cells] == [pytest.approx(0.2), pytest.approx(-0.25)]
    assert cells[0].sessions == 2


def test_the_median_is_of_sizes(points: Rows, published: Rows) -> None:
    """Signs do not cancel: of 10 %, -20 % and 60 % it is 20 %."""
    theirs = {"sessions": 1, "ttft_p50_s": 1.0, "ttft_p95_s": 1.0, "ttft_p99_s": 1.0}
    ours = {"sessions": 1, "ttft_p50_s": 1.1, "ttft_p95_s": 0.8, "ttft_p99_s": 1.6}
    assert median_error([ours], [theirs]) == pytest.approx(0.2)
    assert median_error(points, published) == pytest.approx(0.1)


def test_what_cannot_be_compared_makes_no_cell() -> None:
    """Not known, not simulated, not positive; but published figures are still counted."""
    theirs = [
        {"sessions": 1, "ttft_p50_s": 1.0, "ttft_p99_s": math.nan},
        {"sessions": 2, "ttft_p50_s": 1.0, "requests_per_s": 0.0},
    ]
    ours = [{"sessions": 1, "ttft_p50_s": math.nan, "ttft_p99_s": 3.0}]
    assert cell_errors(ours, theirs) == []
    assert median_error(ours, theirs) is None
    assert published_cells(theirs) == 2


@pytest.mark.parametrize("width", [80, 120])
def test_the_sweep_is_readable(points: Rows, width: int) -> None:
    """Every number is there whole, within the width."""
    text = shown(points_table(points, knee_sessions=14), width)
    for expected in ("427 ms", "±39", "42.8 s", "±3.9", "1.5", "93%", "50%", "12.8 k", "614 k", "144", "*14"):
        assert expected in text
    assert "* KV knee: 14 sessions" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_the_knee_row_is_bold_on_a_terminal(points: Rows) -> None:
    """And no other."""
    text = shown(points_table(points, knee_sessions=14), 120, force_terminal=True, color_system="standard")
    (row,) = [each for each in text.splitlines() if "*14" in each]
    assert "\x1b[1m" in row
    (other,) = [each for each in text.splitlines() if "1.31 s" in each]
    assert "\x1b[1m" not in other


def test_published_figures_stand_below_the_simulated(points: Rows, published: Rows) -> None:
    """In a row of their own, named as such."""
    lines = shown(points_table(points, published), 120).splitlines()
    at = next(i for i, each in enumerate(lines) if "427 ms" in each)
    assert lines[at + 1].split() == ["publ.", "388", "ms", "487", "ms", "493", "ms", "0.42"]


def test_requests_without_a_ttft_are_mentioned(points: Rows) -> None:
    """The percentiles do not contain them."""
    points[0]["unfinished"] = 5
    points[1] |= {"unfinished": 2, "refused": 1}
    text = shown(points_table(points), 80)
    assert "1 request refused" in text
    assert "7 requests unfinished" in text


def test_missing_values_are_dashes() -> None:
    """In every table."""
    assert shown(points_table([{"sessions": 3, "ttft_p99_s": math.nan}]), 80).splitlines()[4].split() == [
        "3",
        *["-"] * 9,
    ]
    assert "- / 1 s" in shown(published_table([], [{"sessions": 3, "ttft_p99_s": 1.0}]), 80)
    assert "none of 1 published figures has a prediction" in shown(
        published_table([], [{"sessions": 3, "ttft_p99_s": 1.0}]), 80
    )


@pytest.mark.parametrize("width", [80, 120])
def test_the_comparison_shows_both_the_error_and_the_median(points: Rows, published: Rows, width: int) -> None:
    """Predicted, published, percent; and how many of how many."""
    points[0]["ttft_p99_s"] = None
    text = shown(published_table(points, published), width)
    for expected in ("427 ms / 388 ms", "42.8 s / 38.9 s", "1.5 / 1.36", "+10 %", "- / 493 ms"):
        assert expected in text
    assert "median |error| 10.0 % over 27 of 28 published figures" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(("predicted", "color"), [(1.1, 32), (0.9, 32), (1.3, 33), (0.7, 33), (1.31, 31)])
def test_errors_are_coloured_by_size(predicted: float, color: int) -> None:
    """Green to 10 %, yellow to 30 %, red beyond: the limits included."""
    ours, theirs = {"sessions": 1, "ttft_p50_s": predicted * 10}, {"sessions": 1, "ttft_p50_s": 10.0}
    text = shown(published_table([ours], [theirs]), 80, force_terminal=True, color_system="standard")
    assert f"\x1b[{color}m{(predicted - 1) * 100:+.0f} %" in text


@pytest.mark.parametrize("width", [80, 120])
def test_sensitivities_are_rows(width: int) -> None:
    """A change in words or as a relative number; no knee is a word, brackets are no markup."""
    rows = [
        {"setting": "base [auto]", "knee_sessions": 14, "ttft_p99_s": 38.9, "requests_per_s": 1.05},
        {
            "setting": "seqs=8",
            "knee_sessions": None,
            "ttft_p99_s": math.nan,
            "requests_per_s": 1,
            "change": -0.1,
        },
        {"setting": "fp16", "knee_sessions": 8, "ttft_p99_s": 20, "requests_per_s": 0.7, "change": "14 to 8"},
    ]
    lines = shown(sensitivity_table(rows, 14), width).splitlines()
    found = [" ".join(each.split()) for each in lines]
    assert "base [auto] 14 38.9 s 1.05" in found
    assert "seqs=8 none - 1 -10 %" in found
    assert "fp16 8 20 s 0.7 14 to 8" in found
    assert max(map(len, lines)) <= width
