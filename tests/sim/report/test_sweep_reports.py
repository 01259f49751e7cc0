"""A sweep's table, rows and chart: what fits, what is told apart, and what is missing and says why."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from sim.report.sweep_chart import DASHES, MOST_CURVES, looks, sweep_chart
from sim.report.sweep_files import write_sweep
from sim.report.sweep_rows import Swept, point_rows, sweep_json
from sim.report.sweep_table import shown_loads, sweep_table
from sim.run import Exploration, run_all
from sim.strict_yaml import load_yaml
from sim.sweep.combinations import combinations, parse_over
from sim.sweep.local import LocalRunner

ROOT = Path(__file__).parents[3]


def swept(*over: str, levels: tuple[int, ...] = (1, 2), scenarios: tuple[str, ...] = ("l4-qa-2k",)) -> list[Swept]:
    """Simulate a quick sweep of scenarios of the repository."""
    documents = [load_yaml(ROOT / "scenarios" / f"{name}.yaml") for name in scenarios]
    found = combinations(documents, parse_over(over), overrides=["stop={sessions_per_client: 2}"], seeds=1)
    asked = [Exploration(one.deployment, levels, 1, explain=False, turns=False) for one in found if one.deployment]
    results = iter(run_all(asked, LocalRunner(1)))
    return [Swept(one, next(results) if one.deployment else None) for one in found]


@pytest.fixture(scope="module")
def few() -> list[Swept]:
    """Return two combinations that can be simulated and one that cannot."""
    return swept("engine.kv_cache_tokens=100000,60000,2000", levels=(1, 2, 3, 4))


def text(table: object) -> list[str]:
    """Return what 80 columns show."""
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return [line.strip() for line in capture.get().splitlines() if line.strip()]


def test_a_row_a_combination_with_as_many_loads_as_fit(few: list[Swept]) -> None:
    """Three here; what cannot exist has none."""
    header, names, _, *rows = text(sweep_table(few))
    assert header.count("TTFT p50 / p99") == 3
    assert names.split()[:2] == ["tokens", "knee"]
    assert [row.split()[0] for row in rows] == ["100000", "60000", "2000"]
    assert rows[-1].split()[1:] == ["-"] * 5


def test_long_keys_leave_room_for_fewer_loads_and_for_one_at_least() -> None:
    """Never wider than 80 columns, never folded below what one load needs."""
    wide = swept("engine.long_prefill_token_threshold=4000", "engine.scheduler_reserve_full_isl=true,false")
    lines = text(sweep_table(wide))
    assert lines[0].count("TTFT p50 / p99") in {1, 2}
    assert max(map(len, lines)) <= 80


def test_the_loads_shown_are_around_the_knees_first(few: list[Swept]) -> None:
    """Then the smallest, then the largest."""
    assert shown_loads(few, 9) == shown_loads(few, 3)
    assert shown_loads(few, 3)[0] == 1
    assert shown_loads(few, 3)[-1] == 4
    assert len(shown_loads(few, 1)) == 1
    assert shown_loads([one for one in few if one.result is None], 3) == []


def test_rows_and_json_hold_every_combination(few: list[Swept]) -> None:
    """Also the impossible one, once, with its reason."""
    rows = point_rows(few)
    assert [row["sessions"] for row in rows] == [1, 2, 3, 4] * 2 + [None]
    assert [row["status"] for row in rows] == ["ok"] * 8 + ["impossible"]
    printed = sweep_json(few)["combinations"]
    assert [one["settings"]["engine.kv_cache_tokens"] for one in printed] == [100000, 60000, 2000]
    assert printed[2]["errors"] == [rows[-1]["error"]]
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed


def test_scenarios_are_told_apart_where_there_are_several() -> None:
    """By a column of their own, in the table and in the legend."""
    both = swept(levels=(1,), scenarios=("l4-qa-2k", "l4-code-review-50k"))
    _, *lines = text(sweep_table(both))
    assert [line.split()[0] for line in lines if line.startswith("l4-")] == ["l4-qa-2k", "l4-code-review-50k"]
    figure = sweep_chart(both)
    assert figure is not None
    (legend,) = [axes.get_legend() for axes in figure.axes]
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()][:2] == ["l4-qa-2k", "l4-code-review-50k"]


def test_every_combination_looks_different_and_those_that_share_a_value_alike() -> None:
    """Colours for one key, dashes for the others, whichever has fewer values."""
    values = [[dtype, budget] for dtype in ("fp8", "auto", "tq4") for budget in ("1", "2", "3", "4")]
    made = dict(zip(map(tuple, values), looks(values), strict=True))
    assert len({(look.color, str(look.dashes)) for look in made.values()}) == len(values)
    assert made["fp8", "1"].color == made["fp8", "4"].color != made["auto", "1"].color
    assert made["fp8", "2"].dashes == made["tq4", "2"].dashes == DASHES[1]
    turned = dict(zip(((b, a) for a, b in values), looks([[b, a] for a, b in values]), strict=True))
    assert len({(look.color, str(look.dashes)) for look in turned.values()}) == len(values)
    single = looks([[str(number)] for number in range(20)])
    assert len({(look.color, str(look.dashes)) for look in single}) == 20


def test_what_is_too_much_to_draw_is_said(few: list[Swept]) -> None:
    """The table and the CSV have the rest."""
    many = [few[0]] * (MOST_CURVES + 1)
    figure = sweep_chart(many)
    assert figure is not None
    said = [annotation.get_text() for annotation in figure.axes[0].texts]
    assert f"l4-qa-2k; the first {MOST_CURVES} of {MOST_CURVES + 1} combinations" in said
    assert sweep_chart([few[2]]) is None


def test_files_are_the_same_bytes_each_time(few: list[Swept], tmp_path: Path) -> None:
    """Charts too."""
    first, second = write_sweep(few, tmp_path / "a"), write_sweep(few, tmp_path / "b")
    assert [path.name for path in first] == ["sweep.csv", "sweep.json", "sweep.png", "sweep.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
