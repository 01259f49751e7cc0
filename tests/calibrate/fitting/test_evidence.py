"""Rows of whole steps and layers as batches, and what a profile says to them."""

from typing import Any

import pytest
from device_profiles import round_numbers
from synthetic_tables import table_of

from calibrate.fitting.device import fit_device, signed
from calibrate.fitting.evidence import GRAPHED, Pricer, StepFigure, step_figures
from calibrate.fitting.start import assumed_device
from sim.catalog import load_gpu, load_model
from sim.errors import MeasurementError
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model

STEP = {"operation": "step", "gpu": "L4", "model": "Qwen3-4B", "time_s": 0.1, "label": "measured", "tokens": 1}
L4, MODEL = load_gpu("L4"), load_model("Qwen3-4B")


def figure(**row: Any) -> StepFigure:
    """Return the only figure of a table of one row."""
    (found,) = step_figures(table_of(STEP | row))
    return found


def test_a_prefill_row_is_so_many_requests_of_new_tokens_on_their_past() -> None:
    """Two of 100 on 50: the pairs of both, a sample each."""
    one = figure(sequences=2, new_tokens=100, past_tokens=50)
    assert one.batch == BatchShape(200, 2, 200 * (50 + 101 / 2), 0, 0, holds_prefill=True, prefill_kv_tokens=300)
    assert one.kind == "prefill"


def test_a_mixed_row_adds_decode_rows_that_attend_to_themselves_too() -> None:
    """Eight rows on 1,000 tokens each read 1,001."""
    one = figure(sequences=1, new_tokens=100, decode_rows=8, decode_past_tokens=1000)
    assert one.batch == BatchShape(108, 9, 100 * 101 / 2, 8, 8 * 1001, holds_prefill=True, prefill_kv_tokens=100)
    assert one.kind == "mixed"


@pytest.mark.parametrize(
    "row",
    [{"decode_rows": 8, "decode_past_tokens": 1000}, {"sequences": 8, "past_tokens": 1000}],
    ids=["decode_rows", "sequences"],
)
def test_a_decode_row_is_the_same_batch_however_the_table_says_it(row: dict[str, Any]) -> None:
    """By decode_rows, or as sequences without new tokens."""
    one = figure(**row)
    assert one.batch == BatchShape(8, 8, 0.0, 8, 8 * 1001)
    assert one.kind == "decode"


def test_a_layer_is_a_share_of_a_step_without_its_ends() -> None:
    """No head, no sampling, no step overhead; prompts that are not stated are of middling length."""
    steps = device_step_time_model(round_numbers(), L4, MODEL, "bf16", "bf16", cuda_graph_tokens=0)
    layer = figure(operation="layer", part="prefill", new_tokens=1500)
    assert layer.batch == BatchShape(1500, 0, 1500 * 751 / 2, 0, 0, holds_prefill=True, prefill_kv_tokens=1500)
    by_hand = steps.linear_s(1500) + steps.prefill_overhead_s + 1500 * steps.prefill_s_per_token
    by_hand += layer.batch.prefill_pairs * steps.prefill_s_per_pair
    assert Pricer(round_numbers()).seconds([layer]) == pytest.approx([by_hand / MODEL.num_hidden_layers])


def test_types_gpus_and_graphs_are_the_rows_own() -> None:
    """Empty means bf16, one GPU and vLLM's usual graphs."""
    plain, told = figure(decode_rows=1), figure(
        decode_rows=1, weight_dtype="fp8", kv_cache_dtype="fp8", tensor_parallel=2, graph="cuda_graph"
    )  # fmt: skip
    assert plain.setup == plain.setup.__class__("Qwen3-4B", "bf16", "bf16", 1, 512)
    assert told.setup == told.setup.__class__("Qwen3-4B", "fp8", "fp8", 2, GRAPHED["cuda_graph"])
    by_hand = device_step_time_model(
        round_numbers(), L4, MODEL, "fp8", "fp8", tensor_parallel_size=2, cuda_graph_tokens=GRAPHED["cuda_graph"]
    )
    assert Pricer(round_numbers()).seconds([told]) == [by_hand.seconds(told.batch)]


def test_a_model_the_catalog_does_not_know_is_named() -> None:
    """Its steps cannot be put together from operations."""
    with pytest.raises(
        MeasurementError, match=r"model 'Qwen3-4' of step or layer rows .* \(did you mean 'Qwen3-4B'\?\)"
    ):
        figure(model="Qwen3-4", decode_rows=1)


def test_a_table_of_steps_alone_still_makes_a_profile_and_says_how_far_off_it_is() -> None:
    """Residuals by kind of step, medians of |error|; operations nobody timed stay assumed."""
    truth = round_numbers()
    shapes = [
        {"decode_rows": rows, "decode_past_tokens": past, "graph": "cuda_graph"}
        for rows in (1, 4, 16, 64)
        for past in (100, 8000)
    ] + [{"sequences": 1, "new_tokens": new, "past_tokens": past} for new in (256, 2048) for past in (0, 8000)]
    blank = list(step_figures(table_of(*(STEP | shape for shape in shapes))))
    seconds = Pricer(truth).seconds(blank)
    table = table_of(*(STEP | shape | {"time_s": time} for shape, time in zip(shapes, seconds, strict=True)))
    fit = fit_device(assumed_device(L4), L4, table, replicates=0)
    assert not fit.groups
    assert fit.residuals.keys() == {"prefill steps", "decode steps"}
    assert all(0 <= error < 0.05 for error in fit.residuals.values())
    assert fit.profile.linear["fp8"] == assumed_device(L4).linear["fp8"]
    assert fit.profile.attention["bf16"].decode_bytes_per_s.value == pytest.approx(240e9, rel=0.1)


def test_a_signed_profile_carries_each_source_and_note_once() -> None:
    """In the order they came, residuals to four digits."""
    written = {"name": "n", "made_by": "m", "date": "2026-01-01"}
    one = signed(round_numbers(), {"x": 0.123456}, **written, sources=["b", "a", "b"], notes=["c", "c"])
    assert (one.provenance.sources, one.provenance.notes) == (["b", "a"], ["c"])
    assert one.provenance.residuals == {"x": 0.1235}
    assert one.linear == round_numbers().linear
