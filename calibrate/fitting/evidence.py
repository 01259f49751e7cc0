"""Whole steps and whole layers as evidence on a device profile: what was timed, and what the profile says to it."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from calibrate.known import known_model
from sim.catalog import Gpu, Model, model_names
from sim.errors import MeasurementError, did_you_mean
from sim.steptime.batch import BatchShape
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import DeviceProfile, device_gpu
from sim.steptime.model import StepTimeModel
from sim.steptime.pricing import MOST_GRAPHED_TOKENS

UNSTATED_PROMPT_TOKENS, UNSTATED_CONTEXT_TOKENS = 750, 900  # of one-layer rows that give only the batch
GRAPHED = {"eager": 0, "cuda_graph": 1 << 30}  # the largest batch in a CUDA graph, where the row says which ran


@dataclass(frozen=True, slots=True)
class Setup:
    """What a figure was measured with, apart from the GPU."""

    model: str
    weight_dtype: str
    kv_cache_dtype: str
    tensor_parallel: int
    cuda_graph_tokens: int

    def look_up(self) -> Model:
        """Return the catalogued model; a fit asks thousands of times, so it is read once."""
        model = known_model(self.model)
        assert model is not None, self.model  # `step_figures` took it
        return model


@dataclass(frozen=True, slots=True)
class StepFigure:
    """One measured step, or one layer of it, as a batch and its seconds."""

    setup: Setup
    batch: BatchShape
    seconds: float
    whole_step: bool  # False: one layer, without head and step overhead
    label: str
    kind: str  # prefill, mixed, decode

    def predicted_s(self, steps: StepTimeModel) -> float:
        """Return what a step-time model says; one layer is a share of a step without its ends."""
        seconds = steps.seconds(self.batch)
        if self.whole_step:
            return seconds
        return (seconds - steps.step_overhead_s) / self.setup.look_up().num_hidden_layers


class Pricer:
    """Prices figures under a candidate profile; one step-time model a setup."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._profile = profile
        self._gpu: Gpu = device_gpu(profile)
        self._models: dict[Setup, StepTimeModel] = {}

    def steps(self, setup: Setup) -> StepTimeModel:
        """Return the step-time model of a setup."""
        if setup not in self._models:
            self._models[setup] = device_step_time_model(
                self._profile,
                self._gpu,
                setup.look_up(),
                setup.weight_dtype,
                setup.kv_cache_dtype,
                tensor_parallel_size=setup.tensor_parallel,
                cuda_graph_tokens=setup.cuda_graph_tokens,
            )
        return self._models[setup]

    def seconds(self, figures: Iterable[StepFigure]) -> list[float]:
        """Return the predicted seconds of each figure."""
        return [figure.predicted_s(self.steps(figure.setup)) for figure in figures]


def step_figures(table: pd.DataFrame) -> Iterator[StepFigure]:
    """Yield the whole steps and whole layers of a measurement table of one GPU.

    Raises MeasurementError for a model that is not in the catalog: the row's cost cannot be put together.
    """
    rows = table[table["operation"].isin(["step", "layer"])]
    for model in rows["model"].unique():
        if known_model(model) is None:
            near = did_you_mean(model, model_names())
            raise MeasurementError(f"model {model!r} of step or layer rows is not in the catalog{near}")
    for row in rows.to_dict("records"):
        yield _figure(row)


def _figure(row: dict[str, object]) -> StepFigure:
    whole = row["operation"] == "step"
    requests, new = _number(row, "sequences"), _number(row, "new_tokens")
    past, rows = _number(row, "past_tokens"), _count(row, "decode_rows")
    decode_past = _number(row, "decode_past_tokens")
    if not new and not rows:  # a decode-only batch says `sequences` rows on past_tokens
        requests, rows, decode_past = 0.0, round(requests), _number(row, "past_tokens", UNSTATED_CONTEXT_TOKENS)
    elif new and not requests:  # a batch of prompts, given by its tokens alone
        requests = max(1.0, new / UNSTATED_PROMPT_TOKENS)
        new /= requests
    prefill_tokens = round(requests * new)
    batch = BatchShape(
        tokens=prefill_tokens + rows,
        sampled=round(requests) + rows if whole else 0,
        prefill_pairs=prefill_tokens * (past + (new + 1) / 2),
        decode_rows=rows,
        decode_kv_tokens=round(rows * (decode_past + 1)),
        holds_prefill=prefill_tokens > 0,
        prefill_kv_tokens=requests * (past + new) if prefill_tokens else 0.0,
    )
    setup = Setup(
        model=str(row["model"]),
        weight_dtype=_text(row, "weight_dtype", "bf16"),
        kv_cache_dtype=_text(row, "kv_cache_dtype", "bf16"),
        tensor_parallel=_count(row, "tensor_parallel") or 1,
        cuda_graph_tokens=GRAPHED.get(_text(row, "graph", ""), MOST_GRAPHED_TOKENS),
    )
    kind = ("mixed" if rows else "prefill") if prefill_tokens else "decode"
    label = f"{row['model']} {requests:.0f} x {new:.0f} on {past:.0f} + {rows} rows on {decode_past:.0f}"
    return StepFigure(setup, batch, float(str(row["time_s"])), whole, label, kind)


def _number(row: dict[str, object], name: str, default: float = 0.0) -> float:
    value = row.get(name)
    number = math.nan if value is None else float(str(value))
    return default if math.isnan(number) else number


def _count(row: dict[str, object], name: str) -> int:
    return round(_number(row, name))


def _text(row: dict[str, object], name: str, default: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) and value else default
