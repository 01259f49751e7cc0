"""A sweep's table, rows and chart: what fits, what is told apart, and what is missing and says why."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from rich.console import Console

from sim.report.sweep_chart import DASHES, MOST_CURVES, MOST_MISSING, looks, sweep_chart
from sim.report.sweep_files import write_sweep
from sim.report.sweep_rows import Swept, point_rows, sweep_json
from sim.report.sweep_table import print_sweep, shown_loads, sweep_table
from sim.results.cause import Cause
from sim.results.knee import Knee
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
    assert [" ".join(row.split()[1:4]) for row in rows[:2]] == ["> 4 4", "> 4 4"]
    assert rows[-1].split()[1:] == ["-"] * 5


def changed(one: Swept, **changes: object) -> Swept:
    """Return a combination with another result."""
    assert one.result is not None
    return Swept(one.combination, replace(one.result, **changes))  # type: ignore[arg-type]


def test_the_bisected_knee_and_the_cause_stand_in_the_table(few: list[Swept]) -> None:
    """Of an SLO, too, where there is no knee; who did not look for causes has no column of them."""
    at_knee = Cause(4, 9.0, {"KV cache": 1.0}, past_kv_knee=True)
    of_slo = Cause(1, 9.0, {"KV cache": 9.0, "max_num_batched_tokens": 1.0}, past_kv_knee=False)
    table = text(
        sweep_table(
            [
                changed(few[0], knee=Knee(4, 3, 3, 4), cause=at_knee),
                changed(few[1], slo_sessions=None, cause=of_slo),
                few[2],
            ]
        )
    )
    assert [" ".join(row.split()[:6]) for row in table[3:]] == [
        "100000 4 (3) 4 KV cache",
        "60000 > 4 < 1 SLO:",
        "batched_tokens",
        "2000 - - - - -",
    ]
    assert "cause" in table[1]
    assert "cause" not in " ".join(text(sweep_table(few)))


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
    one = few[0].combination
    many = [
        Swept(replace(one, settings={"engine.kv_cache_tokens": str(number)}), few[0].result)
        for number in range(MOST_CURVES + 1)
    ]
    figure = sweep_chart(many)
    assert figure is not None
    said = [annotation.get_text() for annotation in figure.axes[0].texts]
    assert f"l4-qa-2k; the first {MOST_CURVES} of {MOST_CURVES + 1} curves" in said
    assert sweep_chart([few[2]]) is None


@pytest.fixture(scope="module")
def refusing() -> list[Swept]:
    """Return one load with prefixes of which the second is refused now and then, and the third always."""
    return swept("workload.shared_prefix_tokens=0,20000,40000", levels=(8,), scenarios=("l4-qwen3-4b-fp8",))


def test_refused_turns_are_a_status_a_count_and_a_reason(
    refusing: list[Swept], capsys: pytest.CaptureFixture[str]
) -> None:
    """No knee is claimed over turns that were not served; percentiles of the others are still shown."""
    assert [one.status for one in refusing] == ["ok", "refused", "refused"]
    rows = point_rows(refusing)
    assert [row["status"] for row in rows] == ["ok", "refused", "refused"]
    assert rows[0]["error"] is None
    assert rows[2]["error"].startswith("16 of 16 turns refused, too long: max_model_len is 32,768 and the KV cache has")
    printed = sweep_json(refusing)["combinations"]
    assert [one["refused"] for one in printed] == [0, rows[1]["refused"], 16]
    assert 0 < rows[1]["refused"] < rows[1]["requests"]
    assert printed[2]["errors"] == [rows[2]["error"]]
    print_sweep(refusing)
    said = " ".join(capsys.readouterr().out.split())
    assert "shared_prefix_tokens 40000: 16 of 16 turns refused, too long: " in said
    assert "Where turns are refused the SLO is missed" in said
    assert "40000 - < 8 -" in said


def drawn(swept: list[Swept]) -> tuple[Axes, list[str]]:
    """Return the axes of the chart and its legend."""
    figure = sweep_chart(swept)
    assert figure is not None
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    return axes, [entry.get_text().replace("\n", " ") for entry in legend.get_texts()]


def test_one_load_and_a_number_are_drawn_over_that_number(refusing: list[Swept]) -> None:
    """What was refused is told: at a point beside its curve, everywhere in place of one."""
    axes, legend = drawn(refusing)
    assert axes.get_xlabel() == "shared_prefix_tokens (square-root scale)"
    (curve,) = [line for line in axes.lines if str(line.get_label()).startswith("TTFT")]
    assert list(curve.get_xdata()) == [0, 20000]
    assert list(curve.get_ydata()) == [row["ttft_p99_s"] for row in point_rows(refusing)[:2]]
    assert legend[0] == "TTFT p99: turns refused at 20000"
    assert legend[-1] == "shared_prefix_tokens 40000: all turns refused"
    assert "l4-qwen3-4b-fp8; at 8 sessions" in [annotation.get_text() for annotation in axes.texts]


def test_over_a_number_the_other_settings_make_the_curves() -> None:
    """Rings are on points past the knee."""
    both = swept("engine.max_num_seqs=1,8", "engine.scheduling_policy=fcfs,priority", levels=(2,))
    both[3] = changed(both[3], knee=Knee(2, 2, 2, 2))
    axes, legend = drawn(both)
    assert axes.get_xlabel() == "max_num_seqs (square-root scale)"
    assert legend[:3] == ["fcfs", "priority", "past the KV knee"]
    rings = [list(line.get_xdata()) for line in axes.lines if line.get_label() == "knees"]
    assert rings == [[], [8]]


def test_a_knee_is_ringed_and_what_has_no_curve_is_named(few: list[Swept]) -> None:
    """Rings have the curve's colour; dashes are left to the settings."""
    axes, legend = drawn([changed(few[0], knee=Knee(4, 3, 3, 4)), *few[1:]])
    curve, ring = (next(line for line in axes.lines if line.get_label() == label) for label in (legend[0], "knees"))
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([4], [curve.get_ydata()[-1]])
    assert ring.get_markeredgecolor() == curve.get_color()
    assert legend[:3] == ["100000: knee 4", "60000", "KV knee"]
    assert legend[-1] == "2000: impossible"
    many = [*few[:2], *[few[2]] * (MOST_MISSING + 3)]
    assert drawn(many)[1][-2:] == ["2000: impossible", "and 3 more without a curve"]


def test_a_sweep_without_a_chart_leaves_none_of_another(few: list[Swept], tmp_path: Path) -> None:
    """The old one would stand beside the new table."""
    write_sweep(few, tmp_path)
    write_sweep(few[2:], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.csv", "sweep.json"]


def test_files_are_the_same_bytes_each_time(few: list[Swept], tmp_path: Path) -> None:
    """Charts too."""
    first, second = write_sweep(few, tmp_path / "a"), write_sweep(few, tmp_path / "b")
    assert [path.name for path in first] == ["sweep.csv", "sweep.json", "sweep.png", "sweep.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
