"""Founding document 003's queue, from its step times alone; and the settings that choose a policy."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from calibrate.queue_document import PUBLISHED_S, terms
from sim.cli import main

SCENARIO = str(Path(__file__).parents[2] / "scenarios" / "queue-of-1000.yaml")


def _run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["run", SCENARIO, *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_four_step_times_give_four_positive_terms() -> None:
    """A decode step at context 64 comes back from them, with one row and with sixteen."""
    step_s, row_s, pair_s, sampled_s = terms()
    assert min(step_s, row_s, pair_s, sampled_s) > 0
    for rows, name in ((1, "decode_1_row_s"), (16, "decode_16_rows_s")):
        assert step_s + rows * (row_s + 64 * pair_s + sampled_s) == pytest.approx(PUBLISHED_S[name])


def test_all_sixteen_published_figures_are_within_ten_percent() -> None:
    """With variants named by the checks, `--check` runs them."""
    result = json.loads(_run("--check", "--quick", "--seeds", "2", "--json"))
    figures = result["figures"]
    assert len(figures) == 16
    assert all(figure["met"] for figure in figures)
    assert max(abs(figure["error"]) for figure in figures) < 0.1
    assert sum(abs(figure["error"]) < 0.05 for figure in figures) >= 12


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("engine.scheduler=static", "did you mean 'static_batches'?"),
        ("engine.scheduling_policy=lifoo", "did you mean 'lifo'?"),
        ("engine.scheduler=prefill_first", "kv_reservation"),
        ("engine.scheduling_policy=priority_quota", "need each other"),
        ("engine.scheduling_policy=earliest_deadline", "first_token_due_s"),
        ("engine.kv_reservation=pages", "'paged'"),
        ("engine.prefill_chunk_tokens=64", "needs scheduler chunked_prefill"),
        ("engine.scheduler=chunked_prefill", "cuts prompts"),
        ("engine.long_prefill_token_threshold=64", "needs scheduler vllm_v1 or one_at_a_time"),
        ("engine.long_prefill_token_threshold_adaptive=true", "needs scheduler vllm_v1 or one_at_a_time"),
    ],
)
def test_wrong_policies_are_one_line(setting: str, said: str) -> None:
    """With the nearest name, or what is missing."""
    others = {
        "prefill_first": "engine.kv_reservation=request",
        "chunked_prefill": "engine.enable_chunked_prefill=false",
    }
    other = others.get(setting.removeprefix("engine.scheduler="))
    extra = [] if other is None else ["--set", other]
    output = _run("--set", setting, *extra, code=2)
    assert said in output
    assert output.count("\n") == 1
