"""A scenario beside results that it wrote itself: little is off on either side of the knee, whatever the format."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sim.cli import main

ROOT = Path(__file__).parents[3]


def kvcliff(*arguments: object) -> str:
    """Run the command."""
    result = CliRunner().invoke(main, [*map(str, arguments), "--jobs", "1", "--json"])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("form", ["vllm-bench", "vllm-bench-detailed", "aiperf"])
@pytest.mark.parametrize(
    ("name", "levels", "error_max"),
    [("l4-qwen3-4b-fp8", (6, 20, 48), 0.05), ("l4-replayed-agents", (2, 10), 0.1), ("queue-of-1000", (1000,), 0.05)],
)
def test_its_own_result_is_what_a_scenario_predicts(
    name: str, levels: tuple[int, ...], error_max: float, form: str, tmp_path: Path
) -> None:
    """Turns, pauses, sharing and the end of the run are found in the file, or said by the scenario."""
    if name == "l4-replayed-agents" and form != "aiperf":
        pytest.skip("the tool's file lists no sessions, and the scenario's are a trace")
    scenario = ROOT / "scenarios" / f"{name}.yaml"
    points = ",".join(map(str, levels))
    export = f"{form}:{tmp_path}/{{level}}.json"
    kvcliff("run", scenario, "--points", points, "--quick", "--seeds", 1, "--export", export)
    found: dict[str, Any] = json.loads(
        kvcliff("compare", scenario, *(tmp_path / f"{level}.json" for level in levels), "--quick")
    )
    assert found["median_abs_error"] < error_max
    assert max(found["misfit_factors"].values()) < 1 + 3 * error_max
    assert [point["level"] for point in found["points"]] == list(levels)
    assert found["points"][-1]["regime"] != "below"
