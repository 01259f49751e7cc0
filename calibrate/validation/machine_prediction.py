"""What a step should take by its operations alone: through a fitted profile, and naively for comparison."""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from calibrate.fitting.job import FitJob, run_job
from calibrate.timing.layer_shape import layer_shape
from calibrate.timing.outcome import Row
from calibrate.timing.small_transformer_batch import StepBatch
from sim.catalog import Model
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import DeviceProfile, device_gpu
from sim.steptime.model import StepTimeModel

_REPLICATES = 20  # only intervals depend on it
_ALWAYS_IN_A_GRAPH = 1 << 30
_PER_LAYER = ("norm", "norm", "rotary", "kv_write", "activation")  # the small kernels of a layer


def fit_machine(table: Path) -> DeviceProfile:
    """Return the profile that `kvcliff fit` makes of a table of operations.

    The small transformer gives decode rows a kernel of their own beside a prefill, on a GPU too. Raises
    MeasurementError for a table that does not suffice.
    """
    profile = run_job(FitJob(tables=(table,), replicates=_REPLICATES)).profile
    return msgspec.structs.replace(profile, decode_rows_beside_prefill="on_their_own")


def composed(profile: DeviceProfile, model: Model, dtype: str) -> StepTimeModel:
    """Return the step times of `model` on the profile's device."""
    gpu = device_gpu(profile)
    return device_step_time_model(profile, gpu, model, dtype, dtype, cuda_graph_tokens=_ALWAYS_IN_A_GRAPH)


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
