"""`kvcliff validate scenarios`: document 002's table row by row, a page, an exit code, bad input."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sim.catalog import load_model
from sim.cli import main

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "scenarios" / "qwen3-1.7b-8gb"
GRAPHS = (FOLDER / "cuda-graphs.yaml").read_text(encoding="utf-8")
TABLE = ROOT.parent / "shared" / "data" / "seed_tables" / "qwen3_1p7b_8gb.csv"
GIVEN = {"capacity_tokens", "prefill_rate", "preemptions"}  # inputs of the runs, and of the fit; a range


def _validate(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["validate", "scenarios", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def figures() -> list[dict[str, Any]]:
    """Return all figures of document 002, simulated once."""
    found: list[dict[str, Any]] = json.loads(_validate(str(FOLDER), "--check", "--json", "--jobs", "1"))["figures"]
    return found


def test_every_figure_is_met_and_the_median_is_within_six_percent(figures: list[dict[str, Any]]) -> None:
    """As its scenario asks: 10, 15 or 20 %."""
    assert len(figures) >= 48
    assert all(figure["met"] for figure in figures)
    errors = sorted(abs(figure["error"]) for figure in figures if figure["error"] is not None)
    assert errors[len(errors) // 2] < 0.06
    assert errors[-1] < 0.2


@pytest.mark.skipif(not TABLE.exists(), reason="needs the published table of ../shared")
def test_every_row_of_the_published_table_is_asked_for(figures: list[dict[str, Any]]) -> None:
    """Or is what the runs were given: capacities, the rate that the fit uses; preemptions are asked for as ranges."""
    published = {float(figure["published"]) for figure in figures if figure["published"] is not None}
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 45
    for row in rows:
        if row["metric"] == "bytes_per_token":
            assert load_model("Qwen3-1.7B").kv_bytes_per_token("auto") == float(row["value"])
        elif row["metric"] not in GIVEN:
            assert float(row["value"]) in published, row
    assert sum(figure["metric"] == "preemptions" for figure in figures) == 3


def test_a_page_and_an_exit_code(tmp_path: Path) -> None:
    """A figure that is off is named, and the page is written all the same."""
    path = tmp_path / "graphs.yaml"
    path.write_text(GRAPHS.replace("published: 66,", "published: 99,"), encoding="utf-8")
    output = _validate(str(tmp_path), "--check", "--out", str(tmp_path / "pages"), code=1)
    assert "check failed: cuda-graphs: 1 client, CUDA graphs: throughput" in output
    (page,) = (tmp_path / "pages").glob("*.md")
    assert "| cuda-graphs | 1 client, eager: throughput |" in page.read_text(encoding="utf-8")
    assert "3 figures of 1 scenario, 2 as asked" in _validate(str(path))


def test_places_without_figures_are_one_line(tmp_path: Path) -> None:
    """An empty folder, scenarios that list none, a file that is not there."""
    plain = tmp_path / "plain"
    plain.mkdir()
    assert "holds no .yaml file" in _validate(str(plain), code=2)
    (plain / "graphs.yaml").write_text(GRAPHS[: GRAPHS.index("checks:")], encoding="utf-8")
    assert "no scenario lists checks.figures" in _validate(str(plain), code=2)
    assert _validate(str(tmp_path / "missing.yaml"), code=2).count("\n") == 1
