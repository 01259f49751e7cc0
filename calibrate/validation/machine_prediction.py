"""What a step should take by its operations alone: through a fitted profile, and naively for comparison."""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from calibrate.fitting.job import FitJob, run_job
from calibrate.fitting.terms import with_values
from calibrate.timing.layer_shape import layer_shape
from calibrate.timing.outcome import Row
from calibrate.timing.small_transformer_batch import StepBatch
from sim.catalog import Model
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import DeviceProfile, device_gpu
from sim.steptime.model import StepTimeModel

_REPLICATES = 20  # only intervals depend on it
_ALWAYS_IN_A_GRAPH = 1 << 30
_PER_LAYER = ("norm", "norm", "rotary", "kv_write", "activation")  # the small kernels of a layer


def fit_machine(table: Path) -> DeviceProfile:
    """Return the profile that `kvcliff fit` makes of a table of operations.

    Two assumptions about GPUs are dropped for a CPU: that long steps clock lower than the loops operations are timed
    in, and that attention takes queries in tiles. Raises MeasurementError for a table that does not suffice.
    """
    profile = run_job(FitJob(tables=(table,), replicates=_REPLICATES)).profile
    if profile.hardware is None:
        return profile
    return msgspec.structs.replace(with_values(profile, {"composition.flops_slowdown": 1.0}), prefill_tile_rows=1)


def composed(profile: DeviceProfile, model: Model, dtype: str) -> StepTimeModel:
    """Return the step times of `model` on the profile's device."""
    gpu = device_gpu(profile)
    return device_step_time_model(profile, gpu, model, dtype, dtype, cuda_graph_tokens=_ALWAYS_IN_A_GRAPH)


def step_s(steps: StepTimeModel, batch: BatchShape) -> float:
    """Return seconds of a step whose decode rows always go through the decode kernel, beside a prefill too.

    vLLM's kernels take them with the prefill there, which is what `steps` prices; the small transformer's do not.
    """
    if not (batch.holds_prefill and batch.decode_rows):
        return steps.seconds(batch)
    rows = BatchShape(batch.decode_rows, batch.decode_rows, 0.0, batch.decode_rows, batch.decode_kv_tokens)
    attention_s = steps.seconds(rows) - steps.seconds(rows._replace(decode_rows=0, decode_kv_tokens=0))
    return steps.seconds(batch._replace(decode_kv_tokens=0)) + attention_s


def sum_of_nearest_s(rows: Sequence[Row], model: Model, batch: StepBatch) -> float:
    """Return seconds of a step as the sum of its operations, each as long as the nearest one that was timed."""
    shape, requests = layer_shape(model), len(batch.requests)
    layer_s = sum(_nearest_s(rows, "gemm", part, tokens=batch.tokens) for part in shape.linear_parts)
    layer_s += sum(_nearest_s(rows, "elementwise", part, tokens=batch.tokens) for part in _PER_LAYER)
    for chunk in batch.chunks:
        layer_s += _nearest_s(
            rows, "prefill_attention", new_tokens=chunk.new_tokens, past_tokens=chunk.past_tokens, sequences=1
        )
    if batch.decode_pasts:
        count = len(batch.decode_pasts)
        mean = sum(batch.decode_pasts) / count
        layer_s += _nearest_s(rows, "decode_attention", sequences=count, past_tokens=mean)
    ends_s = _nearest_s(rows, "head", sequences=requests) + _nearest_s(rows, "sampling", "greedy", sequences=requests)
    return model.num_hidden_layers * layer_s + ends_s


def _nearest_s(rows: Sequence[Row], operation: str, part: str = "", **sizes: float) -> float:
    """Return the time of the row whose sizes differ by the smallest factors; nan where there is none at all."""

    def distance(row: Row) -> float:
        return sum(abs(math.log((_size(row, name) + 1) / (size + 1))) for name, size in sizes.items())

    own = [row for row in rows if row["operation"] == operation and row.get("part", "") == part]
    return float(str(min(own, key=distance)["time_s"])) if own else math.nan


def _size(row: Row, name: str) -> float:
    return float(str(row.get(name) or 0))
