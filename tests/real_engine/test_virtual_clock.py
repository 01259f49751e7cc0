"""The driver of the real engine, checked on our own: two programs, one clock, the same run."""

from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cpu_experiment import ENGINE, PROFILES
from run_files import write_run
from stand_in_engine import CPU_LIKE, StandInEngine
from virtual_clock import drive

from calibrate.fitting.whole_steps import FitQuality, WholeStepsFit
from calibrate.validation.cliff_prediction import measured_metrics, predicted_metrics
from calibrate.validation.cliff_runs import find_runs
from calibrate.validation.cliff_workload import draw_workload

SHORT = msgspec.structs.replace(PROFILES["agent"], turns_per_slot=6, turns=4)


@pytest.mark.parametrize("blocks", [4096, 160])
def test_the_driver_and_the_simulated_clients_make_the_same_run(tmp_path: Path, blocks: int) -> None:
    """With known step costs, driven and predicted metrics agree: same arrivals, hits, preemptions, token times."""
    workload = draw_workload("agent", SHORT, sessions=5, seed=3)
    settings = ENGINE | {"num_gpu_blocks": blocks}
    write_run(tmp_path / "driven", workload, drive(StandInEngine(settings), workload, 4096), settings, {})
    (run,) = find_runs([tmp_path])
    exact = WholeStepsFit(CPU_LIKE, np.array([CPU_LIKE.coefficients_s]), np.ones(1), np.ones(1), FitQuality(0, 0, 0, 0))
    predicted = predicted_metrics(run.workload, run.engine, exact, 0)
    assert predicted == pytest.approx(measured_metrics(run), rel=1e-4)


def test_the_clock_moves_by_the_steps_and_jumps_over_idle_gaps() -> None:
    """Every step starts when the last one ended, or later where nothing was under way; a think time is never cut."""
    workload = draw_workload("agent", SHORT, sessions=2, seed=1)
    requests, steps = drive(StandInEngine(ENGINE), workload, 4096)
    assert all(b["t"] >= a["t"] + a["cpu"] - 2e-6 for a, b in pairwise(steps))
    by_slot = [[one for one in requests if one["slot"] == slot] for slot in range(2)]
    for own in by_slot:
        for before, after in pairwise(own):
            assert after["due"] == pytest.approx(before["finish"] + after["think"], abs=2e-6)
            assert after["added"] >= after["due"]


def test_each_prompt_extends_the_conversation_by_its_answer_and_the_new_tokens() -> None:
    """Prompt lengths follow from the workload; a new session starts from the shared prefix again."""
    workload = draw_workload("agent", SHORT, sessions=1, seed=1)
    requests, _ = drive(StandInEngine(ENGINE), workload, 4096)
    expected, context = [], 0
    for turn in workload.slots[0].turns:
        context = (context if turn.turn else workload.shared_prefix_tokens) + turn.new_tokens
        expected.append(context)
        context += turn.output_len
    assert [one["prompt_len"] for one in requests] == expected
