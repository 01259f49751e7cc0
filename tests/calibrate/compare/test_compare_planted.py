"""A cause that was planted is named first, and its size found."""

import json
from pathlib import Path

import pytest
from planted import as_vllm_bench, planted_runs

from calibrate.compare.errors import loss, misfits
from calibrate.compare.explain import Verdict, verdict_of
from calibrate.compare.load import sent_load
from calibrate.compare.refit import refit
from calibrate.compare.run import CompareOptions, Comparison, compare
from calibrate.compare.simulate import Asked, Bench
from calibrate.compare.terms import CLIENT, DECODE, HOST, KV_BLOCKS, PREFILL, TERMS, Change, changed
from sim.load import load_deployment
from sim.setup import assemble

L4 = Path(__file__).parents[3] / "scenarios" / "l4-qwen3-4b-fp8.yaml"
H100 = Path(__file__).parents[3] / "scenarios" / "h100-qwen3-4b-fp8.yaml"


def explained(scenario: Path, change: Change | None, loads: tuple[int, ...], requests: int = 40) -> Verdict:
    """Return what is made of a sweep with a planted change."""
    base = load_deployment(scenario)
    runs = planted_runs(base, change, loads, requests=requests)
    measured = [run.metrics for run in runs]
    with Bench(base, str(scenario), [[sent_load(run, base.parts, 0)] for run in runs], jobs=1) as bench:
        (predicted,) = bench.metrics([Asked()])
        refitted = refit(bench, measured, list(TERMS))
    return verdict_of(loss(measured, predicted), misfits(measured, predicted), refitted)


@pytest.mark.parametrize(
    "change",
    [
        Change(PREFILL, 1 / 1.5),
        Change(PREFILL, 1.5),
        Change(DECODE, 1 / 1.4),
        Change(KV_BLOCKS, 0.5),
        Change(HOST, 0.003),
        Change(CLIENT, 0.04),
    ],
    ids=lambda change: f"{change.term} {change.value:.3g}",
)
def test_a_planted_cause_is_named_and_its_size_found(change: Change) -> None:
    """By a profile of one model; the last load fills half the blocks."""
    verdict = explained(L4, change, (1, 12, 48))
    assert [one.term.name for one in verdict.named] == [change.term]
    assert verdict.named[0].value == pytest.approx(change.value, rel=0.1)
    assert verdict.removed(verdict.named[0]) > 0.95


@pytest.mark.parametrize("change", [Change(PREFILL, 1 / 1.5), Change(DECODE, 1 / 1.4), Change(HOST, 0.003)],
                         ids=lambda change: change.term)  # fmt: skip
def test_a_planted_cause_is_found_by_a_device_profile_too(change: Change) -> None:
    """And with blocks to spare, their number is told to change nothing."""
    verdict = explained(H100, change, (1, 16))
    assert verdict.named[0].term.name == change.term
    assert verdict.named[0].value == pytest.approx(change.value, rel=0.1)
    assert next(one for one in verdict.ranked if one.term.name == KV_BLOCKS).idle


def test_nothing_planted_is_nothing_to_explain() -> None:
    """An exact prediction gets no cause."""
    verdict = explained(L4, None, (1, 12))
    assert not verdict.named
    assert "nothing to explain" in verdict.sentence


def compared(tmp_path: Path, rows: list[dict[str, object]], **options: object) -> Comparison:
    """Return what is made of a file with these results."""
    file = tmp_path / "bench.json"
    file.write_text("\n".join(map(json.dumps, rows)) if len(rows) > 1 else json.dumps(rows[0]))
    return compare(CompareOptions(scenario=L4, measured=[file], jobs=1, **options))  # type: ignore[arg-type]


def test_a_planted_cause_is_found_in_a_file_of_vllm_bench(tmp_path: Path) -> None:
    """Detailed, so that the lengths are known; every number went through the file."""
    runs = planted_runs(load_deployment(L4), Change(DECODE, 0.7), (1, 12), requests=40)
    found = compared(tmp_path, [as_vllm_bench(run, detailed=True) for run in runs])
    assert found.verdict is not None
    assert found.verdict.named[0].term.name == DECODE
    assert found.verdict.named[0].value == pytest.approx(0.7, rel=0.1)
    assert any("more KV blocks cannot matter" in note for note in found.cannot_matter)


def test_a_second_cause_is_found_beside_the_first(tmp_path: Path) -> None:
    """A slower client and slower decoding: neither alone leaves little, both together do."""
    base = load_deployment(L4)
    slow_client = assemble(changed(base, Change(CLIENT, 0.4)), "planted")
    runs = planted_runs(slow_client, Change(DECODE, 0.6), (1, 12), requests=30)
    verdict = compared(tmp_path, [as_vllm_bench(run, detailed=True) for run in runs]).verdict
    assert verdict is not None
    assert verdict.second is not None
    assert {verdict.ranked[0].term.name, verdict.second.term.name} == {CLIENT, DECODE}
    assert verdict.removed(verdict.second) > 0.85
    assert "together remove" in verdict.sentence


def test_two_things_at_once_are_not_blamed_on_one(tmp_path: Path) -> None:
    """A slower client and faster steps have no single cause that leaves little."""
    runs = planted_runs(load_deployment(L4), Change(CLIENT, 0.4), (1, 8), requests=40)
    rows = [as_vllm_bench(run) for run in runs]
    for row in rows:
        row |= {name: value * 0.6 for name, value in row.items() if "_tpot_" in name or "_itl_" in name}  # type: ignore[operator]
        row |= {name: value * 0.6 for name, value in row.items() if "_e2el_" in name}  # type: ignore[operator]
    found = compared(tmp_path, rows)
    assert found.verdict is not None
    best = found.verdict.ranked[0]
    assert not found.verdict.named or found.verdict.removed(best) < 0.9
    assert "none of them" in found.verdict.sentence or "not all" in found.verdict.sentence
