"""The parts of a request's time add up to what the client saw, whatever the load, the policy and the costs."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from small_scenario import SMALL
from strategies import cases

from sim.cli import main
from sim.engine.record import Outcome, TurnRecord
from sim.engine.simulation import simulate
from sim.results.breakdown import Breakdown, StepTimes, break_down
from sim.scenario import Scenario
from sim.setup import Deployment, deploy
from sim.strict_yaml import YamlDocument, apply_overrides, decode, load_yaml

COSTS = (
    "{penalty_token_s: 1e-5, penalised_share: 0.5, structured_step_s: 1e-3, structured_share: 0.3, round_trip_s: 0.04, "
    "flush_s: 0.002, hashing_token_s: 2e-6, tokenising_token_s: 1e-6, host_step_s: 0.004, host_sequence_s: 1e-4}"
)

SHORT_OF_KV = (
    "workload={shared_prefix_tokens: 0, turns: 1, new_tokens: 500, output_tokens: 400}",
    "engine.kv_cache_tokens=3000",
    "engine.max_model_len=2048",
    "engine.enable_prefix_caching=false",
)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> YamlDocument:
    """Return the small scenario, read."""
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return load_yaml(path)


def _deployed(document: YamlDocument, *changes: str) -> Deployment:
    return deploy(decode(apply_overrides(document, changes), Scenario), document.source)


def _broken_down(deployment: Deployment, level: int, seed: int = 0) -> list[tuple[TurnRecord, Breakdown]]:
    run = simulate(deployment.engine, deployment.load_at(level), seed, keeps_chunks=True)
    done = [one for one in run.records if one.outcome is Outcome.COMPLETED]
    assert done
    times = StepTimes.of(done[0])
    engine = deployment.engine
    return [(one, break_down(one, times, engine.steps, engine.costs.delivery_s)) for one in done]


@settings(max_examples=cases(30), deadline=None)
@given(
    clients=st.integers(1, 12),
    new=st.integers(1, 900),
    out=st.integers(1, 60),
    kv_tokens=st.sampled_from([2200, 4000, 20000]),
    budget=st.sampled_from([64, 256, 2048]),
    is_async=st.booleans(),
    with_costs=st.booleans(),
    scheduler=st.sampled_from(["vllm_v1", "no_kv_cache", "one_at_a_time", "static_batches", "fixed_slots"]),
    seed=st.integers(0, 3),
)
def test_the_parts_add_up(document: YamlDocument, **drawn: Any) -> None:
    """And none is negative; the first token comes no later than the last, part by part."""
    deployment = _deployed(
        document,
        f"workload={{shared_prefix_tokens: 64, turns: 2, new_tokens: {{kind: uniform, low: 1, high: {drawn['new']}}}, "
        f"output_tokens: {{kind: uniform, low: 1, high: {drawn['out']}}}}}",
        f"engine.kv_cache_tokens={drawn['kv_tokens']}",
        "engine.max_model_len=2048",
        f"engine.max_num_batched_tokens={drawn['budget'] if drawn['scheduler'] == 'vllm_v1' else 2048}",
        f"engine.async_scheduling={str(drawn['is_async']).lower()}",
        f"engine.scheduler={drawn['scheduler']}",
        *([f"costs={COSTS}"] if drawn["with_costs"] else []),
    )
    for record, found in _broken_down(deployment, drawn["clients"], drawn["seed"]):
        assert found.ttft.total == pytest.approx(record.ttft_s, abs=1e-9)
        assert found.e2e.total == pytest.approx(record.e2e_s, abs=1e-9)
        for early, late in zip(found.ttft, found.e2e, strict=True):
            assert -1e-9 < early <= late + 1e-9
        if not record.reprefilled_tokens and drawn["scheduler"] == "vllm_v1":
            assert found.e2e.reprefill == 0


def test_a_request_alone_waits_for_nobody(document: YamlDocument) -> None:
    """All of its time is its own and the link's."""
    deployment = _deployed(document, "costs={round_trip_s: 0.05, flush_s: 0.001}")
    for record, found in _broken_down(deployment, 1):
        own = found.e2e
        assert (own.queue, own.reprefill) == pytest.approx((0, 0), abs=1e-9)
        assert own.interference == pytest.approx(0, abs=1e-9)
        assert own.prefill > 0
        assert own.decode > 0
        assert own.link == pytest.approx(record.queued_s - record.arrival_s + 0.026)
        assert own.engine == pytest.approx(own.total - own.link)


def test_preemptions_show_as_prefill_again(document: YamlDocument) -> None:
    """Where the pool is short, what was computed and lost is told from what is new."""
    deployment = _deployed(
        document,
        *SHORT_OF_KV,
    )
    found = _broken_down(deployment, 8)
    preempted = [parts.e2e for record, parts in found if record.preemptions]
    others = [parts.e2e for record, parts in found if not record.preemptions]
    assert preempted
    assert others
    assert all(parts.reprefill > 0 for parts in preempted)
    assert not any(parts.reprefill for parts in others)


@pytest.mark.parametrize("is_async", ["true", "false"])
def test_waiting_swapped_out_is_queueing(document: YamlDocument, is_async: str) -> None:
    """Who comes back from host memory with all of its KV has waited too, though it computes a single token again."""
    deployment = _deployed(
        document,
        *SHORT_OF_KV,
        "engine.preemption_mode=swap",
        f"engine.async_scheduling={is_async}",
    )
    preempted = [(record, parts.e2e) for record, parts in _broken_down(deployment, 8) if record.preemptions == 1]
    assert preempted
    for record, parts in preempted:
        times = record.token_times_s
        pause_s = max(later - earlier for earlier, later in pairwise(times))
        before_s = record.scheduled_s - record.queued_s
        assert before_s < parts.queue < before_s + pause_s
        assert parts.queue > before_s + 0.6 * pause_s  # the rest of the pause is the step that ends it
        assert parts.reprefill == 0


def test_the_flag_prints_writes_and_tells_machines(tmp_path: Path) -> None:
    """A table, a CSV row a request, and a key in the JSON."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    shown = CliRunner().invoke(main, ["run", str(path), "--quick", "--breakdown", "--out", str(tmp_path / "out")])
    assert shown.exit_code == 0, shown.output
    assert "TTFT worst" in shown.output
    lines = (tmp_path / "out" / "small" / "breakdown.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 2 + 4
    assert lines[0].startswith("sessions,session,turn,ttft_s,ttft_engine_s,ttft_queue_s,")
    told = CliRunner().invoke(main, ["run", str(path), "--quick", "--breakdown", "--json"])
    rows = json.loads(told.output)["breakdown"]
    which = [(level, measure) for level in (1, 2) for measure in ("ttft", "e2e")]
    assert [(row["sessions"], row["measure"]) for row in rows[::2]] == which
    for row in rows:
        parts = ("queue_s", "prefill_s", "reprefill_s", "interference_s", "decode_s", "link_s")
        assert sum(row[name] for name in parts) == pytest.approx(row["client_s"])
