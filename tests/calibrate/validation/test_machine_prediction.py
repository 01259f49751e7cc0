"""From operations to steps: through the fit, and by the nearest rows."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrate.table_io import write_table
from calibrate.timing.layer_shape import layer_shape
from calibrate.timing.points import Point
from calibrate.timing.small_transformer_batch import Chunk, StepBatch
from calibrate.timing.stopwatch import Timing
from calibrate.timing.work import work
from calibrate.validation.machine_plan import MODEL, STEPS, operation_points, step_plan
from calibrate.validation.machine_prediction import composed, fit_machine, sum_of_nearest_s
from calibrate.validation.machine_proof import Proof, ProvenStep, as_dict
from sim.errors import MeasurementError

SHAPE = layer_shape(MODEL)
FLOPS_PER_S, BYTES_PER_S, CALL_S = 1e11, 1e10, 1e-5


def ideal_s(point: Point) -> float:
    """Return what a point takes on a machine without surprises: a call, its FLOPs and its bytes one after another."""
    needed = work(point, SHAPE, "bf16")
    moved = needed.tensor_bytes if point.operation in {"elementwise", "copy"} else needed.read_bytes
    return CALL_S + needed.flops / FLOPS_PER_S + moved / BYTES_PER_S


def row(point: Point, time_s: float) -> dict[str, object]:
    """Return a row as a calibration writes it."""
    heads = {"num_heads": SHAPE.num_heads, "num_kv_heads": SHAPE.num_kv_heads, "head_dim": SHAPE.head_dim}
    attention = heads if point.operation.endswith("attention") else {}
    common = {"gpu": "cpu: test, 1 threads", "label": "measured", "source": "kvcliff calibrate", "time_s": time_s}
    return {"part": "", **point.columns(), **common, **attention}


def ideal_rows() -> list[dict[str, object]]:
    """Return the whole plan of operations on the ideal machine."""
    return [row(point, ideal_s(point)) for point in operation_points(SHAPE, "bf16", "cpu")]


def ideal_step_s(batch: StepBatch) -> float:
    """Return the sum of a step's own operations on the ideal machine."""
    tokens, count = batch.tokens, len(batch.requests)
    layer = [
        Point("gemm", part, "bf16", tokens=tokens, out_features=out, in_features=inner)
        for part, (out, inner) in SHAPE.linear_parts.items()
    ]
    layer += [Point("elementwise", part, tokens=tokens) for part in ("norm", "norm", "rotary", "activation")]
    layer += [Point("elementwise", "kv_write", kv_cache_dtype="bf16", tokens=tokens)]
    for new, past in batch.chunks:
        layer.append(Point("prefill_attention", kv_cache_dtype="bf16", sequences=1, new_tokens=new, past_tokens=past))
    if batch.decode_pasts:
        mean = round(np.mean(batch.decode_pasts)) + 1
        layer.append(
            Point("decode_attention", kv_cache_dtype="bf16", sequences=count - len(batch.chunks), past_tokens=mean)
        )
    ends = [Point("head", weight_dtype="bf16", sequences=count), Point("sampling", "greedy", sequences=count)]
    return MODEL.num_hidden_layers * sum(map(ideal_s, layer)) + sum(map(ideal_s, ends))


def write(folder: Path, rows: Sequence[dict[str, object]]) -> Path:
    """Write a table of operations."""
    write_table(folder / "operations.csv", pd.DataFrame(rows))
    return folder / "operations.csv"


def test_steps_of_an_ideal_machine_follow_from_its_operations(tmp_path: Path) -> None:
    """Operations in, steps out, through the fit and the composition: within 5 % in the median, 10 % at p90."""
    steps = composed(fit_machine(write(tmp_path, ideal_rows())), MODEL, "bf16")
    plan = step_plan(STEPS, 0)
    errors = np.abs([steps.seconds(batch.shape) / ideal_step_s(batch) - 1 for batch in plan])
    assert np.median(errors) < 0.05
    assert np.quantile(errors, 0.9) < 0.10


def test_decode_rows_cost_the_same_beside_a_prefill(tmp_path: Path) -> None:
    """A mixed step's attention is that of its chunk and that of its rows, for each has a kernel of its own."""
    steps = composed(fit_machine(write(tmp_path, ideal_rows())), MODEL, "bf16")

    def attention_s(batch: StepBatch) -> float:
        bare = batch.shape._replace(prefill_pairs=0.0, decode_rows=0, decode_kv_tokens=0, holds_prefill=False)
        return steps.seconds(batch.shape) - steps.seconds(bare)

    chunk, rows = (Chunk(100, 300),), (500, 700, 900)
    mixed, apart = StepBatch(chunk, rows), (StepBatch(chunk), StepBatch(decode_pasts=rows))
    assert attention_s(mixed) == pytest.approx(sum(map(attention_s, apart)))


def test_a_table_without_the_machines_own_rates_is_refused(tmp_path: Path) -> None:
    """In one line that says which row is missing."""
    rows = [one for one in ideal_rows() if one["operation"] != "copy"]
    with pytest.raises(MeasurementError, match="no copy row"):
        fit_machine(write(tmp_path, rows))


def test_the_nearest_operation_is_the_one_that_differs_by_the_smallest_factor() -> None:
    """Each operation of a step is found by itself; none at all gives no number."""
    rows = [
        row(Point("gemm", part, "bf16", tokens=tokens), tokens)
        for part in SHAPE.linear_parts
        for tokens in (1, 10, 100)
    ]
    rows += [row(Point("elementwise", part, tokens=64), 0.5) for part in ("norm", "rotary", "kv_write", "activation")]
    rows += [row(Point("decode_attention", sequences=4, past_tokens=past), past) for past in (64, 1024)]
    rows += [row(Point("head", sequences=4), 7.0), row(Point("sampling", "greedy", sequences=4), 3.0)]
    layer_s = 4 * 10 + 5 * 0.5 + 1024
    batch = StepBatch(decode_pasts=(600, 700, 800, 900))
    assert sum_of_nearest_s(rows, MODEL, batch) == pytest.approx(MODEL.num_hidden_layers * layer_s + 10)
    assert np.isnan(sum_of_nearest_s(rows, MODEL, StepBatch((Chunk(5, 5),))))


def proof(errors: Sequence[float], busy_cpus: float = 0.0) -> Proof:
    """Return a proof whose steps have these errors."""
    steps = tuple(
        ProvenStep(StepBatch(decode_pasts=(5,)), Timing(1.0, 0.9, 1.1, 9), 1 + error, 1.5) for error in errors
    )
    return Proof("cpu: test, 1 threads", "bf16", steps, 100, busy_cpus)


@pytest.mark.parametrize(
    ("errors", "broken"),
    [
        ([0.05, -0.09, 0.1], []),
        ([0.12, -0.12, 0.12], ["median |error| 12.0% of 3 steps, limit 10%"]),
        ([0.0, 0.0, 0.0, -0.9], ["p90 |error| 63.0% of 4 steps, limit 20%"]),
        ([float("nan")] * 3, ["median |error| nan% of 3 steps, limit 10%", "p90 |error| nan% of 3 steps, limit 20%"]),
    ],
)
def test_a_broken_limit_is_said_with_both_figures(errors: list[float], broken: list[str]) -> None:
    """An error that is no number breaks both limits."""
    assert [line.split(": ", 2)[2] for line in proof(errors).broken()] == broken


def test_other_programs_are_warned_of_only_where_they_matter() -> None:
    """More than half a CPU."""
    assert proof([0.0], busy_cpus=0.4).warning is None
    assert "1.3 CPUs" in (proof([0.0], busy_cpus=1.3).warning or "")


def test_errors_come_by_kind_for_all_and_for_the_plain_sum() -> None:
    """As numbers a machine can read."""
    told = as_dict(proof([0.1, -0.2, 0.0]))
    assert [found["steps"] for found in told["errors"]] == ["decode", "all", "all, by nearest operations"]
    assert told["errors"][1] == {
        "steps": "all",
        "count": 3,
        "median": pytest.approx(0.1),
        "p90": pytest.approx(0.18),
        "bias": pytest.approx(0.0),
    }
    assert told["errors"][2]["median"] == pytest.approx(0.5)


def test_what_is_no_number_is_null_in_json() -> None:
    """NaN is no JSON."""
    assert "NaN" not in json.dumps(as_dict(proof([float("nan")])))
