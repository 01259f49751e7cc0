"""The recorded cliff of a real vLLM 0.32.0 (shared/data/cpu_cliff), predicted from its runs of 2 and 4 sessions."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calibrate.validation.cliff_command import command

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "cpu_cliff"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data/cpu_cliff is not beside the checkout")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """Return what the command prints for machines."""
    result = CliRunner().invoke(command, [str(DATA), "--json", "--check"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def run_of(report: dict[str, Any], sessions: int) -> dict[str, Any]:
    """Return the entry of one number of sessions."""
    (found,) = [run for run in report["runs"] if run["sessions"] == sessions]
    return found


def test_it_is_fitted_below_the_cliff_only(report: dict[str, Any]) -> None:
    """The runs of 8 sessions and their repeats are no part of the fit."""
    assert [run["sessions"] for run in report["runs"] if run["fitted_on"]] == [2, 4]
    assert len(run_of(report, 8)["names"]) == 3


def test_at_8_sessions_the_cliff_is_where_the_engine_fell(report: dict[str, Any]) -> None:
    """Hit rate within 4 points, turns/s within 8 %, TTFT p50 and p90 in the spread of the repeats widened by 10 %."""
    run = run_of(report, 8)
    real = run["measured"]
    mean = {metric: sum(one[metric] for one in real) / len(real) for metric in real[0]}
    assert run["predicted"]["hit_rate"] == pytest.approx(mean["hit_rate"], abs=0.04)
    assert run["predicted"]["turns_per_s"] == pytest.approx(mean["turns_per_s"], rel=0.08)
    for metric in ("ttft_p50_s", "ttft_p90_s"):
        spread = [one[metric] for one in real]
        assert 0.9 * min(spread) <= run["predicted"][metric] <= 1.1 * max(spread)


def test_measured_figures_are_those_the_recording_states(report: dict[str, Any]) -> None:
    """Our arithmetic over requests and steps gives the totals of the summary beside them."""
    for sessions in (2, 4, 8):
        stated = json.loads((DATA / f"agent_cpu_n{sessions:02}.summary.json").read_text())
        ours = run_of(report, sessions)["measured"][0]
        assert ours["turns_per_s"] == pytest.approx(stated["turns_per_s"], rel=1e-3)
        assert ours["hit_rate"] == pytest.approx(stated["hit_rate"], abs=1e-4)
        assert ours["busy_s"] == pytest.approx(stated["busy_cpu"], rel=1e-3)
        assert ours["itl_mean_s"] == pytest.approx(stated["itl"]["mean"], rel=0.02)


@pytest.mark.parametrize("sessions", [2, 4])
def test_below_the_cliff_the_closed_loop_is_the_recorded_one(report: dict[str, Any], sessions: int) -> None:
    """With room for every session, turns/s is within 1 %, the hit rate within 0.001, median TTFT within 3 %."""
    run = run_of(report, sessions)
    real = run["measured"][0]
    assert run["predicted"]["turns_per_s"] == pytest.approx(real["turns_per_s"], rel=0.01)
    assert run["predicted"]["hit_rate"] == pytest.approx(real["hit_rate"], abs=0.001)
    assert run["predicted"]["ttft_p50_s"] == pytest.approx(real["ttft_p50_s"], rel=0.03)


def test_the_knee_lies_between_the_last_run_without_and_the_first_with_the_collapse(report: dict[str, Any]) -> None:
    """Four sessions are as fast as without a limit, eight are far past three times; the predicted knee is between."""
    (knee,) = report["knees"]
    assert knee["measured_between"] == [5, 8]
    assert 5 <= knee["knee_sessions"] <= 8
    assert knee["within_one_session"]
