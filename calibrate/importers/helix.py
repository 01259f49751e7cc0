"""Thesys-lab/Helix-ASPLOS25: one whole layer, prefill by tokens in the batch, decode by rows, fp16, April 2024.

The context of the decode rows is not stated (on L4 the slope fits about 900 tokens), and the times are rounded. The
published files, prompt_bs2time.csv and decode_bs2time.csv, have no header: size and seconds, in a folder of the
model and of the machine (`l4x2` is two L4 sharing the layer).
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from calibrate.importers.layout import Layout, Origin, read_with, rows
from calibrate.importers.names import model_name
from calibrate.importers.shapes import shapes
from calibrate.table_io import Table

_PUBLISHER = "helix"
_NOTE = "times rounded to 0.1 to 1 ms; decode context not stated"
_A100 = "A100-40GB-SXM"  # the cloud machines of the paper


def _layers(frame: pd.DataFrame, origin: Origin, source: str) -> pd.DataFrame:
    """Return layer rows from phase, size (tokens of a prefill, rows of a decode) and time_s."""
    phase, size = frame["phase"], frame["size"]
    prefill = phase == "prefill"
    models, shared_by = origin.models(frame, "model"), origin.tensor_parallels(frame, "tensor_parallel")
    shape = shapes(models, shared_by)
    gpus = origin.gpus(frame, "gpu")
    return rows(
        frame,
        operation="layer",
        part=phase,
        label="measured",
        gpu=gpus if origin.gpu else gpus.replace("A100-80GB-SXM", _A100),
        model=models,
        tensor_parallel=shared_by,
        weight_dtype="fp16",
        kv_cache_dtype="fp16",
        tokens=size,
        sequences=size.where(~prefill),
        new_tokens=size.where(prefill),
        num_heads=shape["num_heads"],
        num_kv_heads=shape["num_kv_heads"],
        head_dim=shape["head_dim"],
        layers=1,
        time_s=frame["time_s"],
        engine="vLLM 2024-04",
        source=source,
        note=_NOTE,
    )


def _extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    given = frame.assign(size=frame["batch_tokens"], time_s=frame["one_layer_time_ms"] / 1e3)
    return _layers(given, origin, f"Thesys-lab/Helix-ASPLOS25@148b733 {origin.path.name}")


def _published(frame: pd.DataFrame, origin: Origin, phase: str) -> pd.DataFrame:
    """Read size and seconds; model and machine are the folders above."""
    folders = origin.path.resolve().parts
    machine, _, gpus = folders[-2].partition("x")
    told = replace(
        origin,
        gpu=origin.gpu or (_A100 if machine == "a100" else machine),
        model=origin.model or model_name(folders[-3]),
        tensor_parallel=origin.tensor_parallel or (int(gpus) if gpus.isdigit() else 1),
    )
    used = frame[frame["size"] > 0].assign(phase=phase)  # each file starts with nothing in no time
    return _layers(used, told, f"Thesys-lab/Helix-ASPLOS25 {origin.path.name}")


LAYOUTS = (
    Layout(
        _PUBLISHER,
        "Helix one layer extract",
        _extract,
        ("tensor_parallel", "batch_tokens", "one_layer_time_ms"),
        ("model", "gpu", "phase"),
    ),
    Layout(
        _PUBLISHER,
        "Helix prompt_bs2time.csv",
        lambda frame, origin: _published(frame, origin, "prefill"),
        ("size", "time_s"),
        file_names=("prompt_bs2time.csv",),
    ),
    Layout(
        _PUBLISHER,
        "Helix decode_bs2time.csv",
        lambda frame, origin: _published(frame, origin, "decode"),
        ("size", "time_s"),
        file_names=("decode_bs2time.csv",),
    ),
)


def read(path: str | Path, **told: str | int | None) -> Table:
    """Read a file of this publisher. Raises MeasurementError."""
    return read_with(LAYOUTS, path, **told)
