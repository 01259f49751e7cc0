from pathlib import Path

import pytest
from matplotlib.figure import Figure

from sim.load import load_deployment
from sim.report import files
from sim.run import Result, run_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def result(name: str) -> Result:
    """Return the shortest run of a shipped scenario."""
    return run_scenario(load_deployment(SCENARIOS / f"{name}.yaml"), levels=[2], seeds=1, explain=False)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return the list to which figures go instead of into files."""
    figures: list[Figure] = []

    def keep(figure: Figure, stem: Path) -> list[Path]:
        figures.append(figure)
        return [stem]

    monkeypatch.setattr(files, "save_figure", keep)
    return figures


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["l4-qwen3-4b-fp8", "l4-qwen3-4b-fp16", "l4-qwen3-4b-tq4"], ["fp8", "fp16", "tq4"]),
        (["l4-a", "a100-a"], ["l4-a", "a100-a"]),
        (["l4-a", "l4-a-b"], ["a", "a-b"]),
        (["l4", "l4-a"], ["l4", "l4-a"]),
        (["l4-x-fp8", "l4-y-fp8"], ["x-fp8", "y-fp8"]),
    ],
)
def test_names_lose_what_all_begin_with(names: list[str], short: list[str]) -> None:
    """Whole words only, and never all of a name."""
    assert files._short_names(names) == short


def test_scenarios_are_compared_under_their_short_names(tmp_path: Path, drawn: list[Figure]) -> None:
    """The published figures of a scenario go with its curve; the axis names every unit."""
    compared = [result("l4-qwen3-4b-fp8"), result("l4-bursty-arrivals")]
    assert files.write_comparison(compared, tmp_path) == [tmp_path / "compared"]
    axes = drawn[0].axes[0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["qwen3-4b-fp8", "bursty-arrivals", "published measurement"]
    assert axes.get_xlabel() == "sessions / sessions per burst (square-root scale)"


def test_variants_are_drawn_beside_the_scenario_as_it_is(tmp_path: Path, drawn: list[Figure]) -> None:
    """First the cliff, then all of them."""
    base = result("l4-bursty-arrivals")
    files.write_files(base, {"other": base}, tmp_path)
    cliff, variants = drawn
    assert cliff.axes[-1].get_xlabel() == "sessions per burst (square-root scale)"
    assert [text.get_text() for text in variants.axes[0].get_legend().get_texts()] == ["as it is", "other"]
