"""Mutinifni/splitwise-sim: whole models of 2023, milliseconds, as one prefill step and one decode step a row.

The decode time is the mean over the generation, so its context is the prompt and half the output.
"""

from pathlib import Path

import pandas as pd

from calibrate.importers.layout import Layout, Origin, column_or, read_with, rows
from calibrate.importers.shapes import shapes
from calibrate.table_io import Table

_PUBLISHER = "splitwise"


def _phases(frame: pd.DataFrame, origin: Origin, names: dict[str, str], source: str) -> pd.DataFrame:
    given = frame.rename(columns=names)
    models, shared_by = origin.models(given, "model"), origin.tensor_parallels(given, "tensor_parallel")
    shape = shapes(models, shared_by)
    about = {
        "operation": "step",
        "label": "measured",
        "gpu": origin.gpus(given, "hardware"),
        "model": models,
        "tensor_parallel": shared_by,
        "weight_dtype": "fp16",
        "kv_cache_dtype": "fp16",
        "num_heads": shape["num_heads"],
        "num_kv_heads": shape["num_kv_heads"],
        "head_dim": shape["head_dim"],
        "layers": shape["layers"],
        "repeats": column_or(given, "repeats", 1.0),
        "engine": "Splitwise, 2023",
        "source": source,
        "note": "power capped"
        if origin.gpu
        else given["hardware"].str.contains("pcap").map({True: "power capped", False: ""}),
    }
    prompt, batch, output = given["prompt_size"], given["batch_size"], given["token_size"]
    prefill = rows(
        given,
        **about,
        part="prefill",
        tokens=prompt * batch,
        sequences=batch,
        new_tokens=prompt,
        past_tokens=0,
        decode_rows=0,
        time_s=given["prompt_time"] / 1e3,
    )
    decode = rows(
        given,
        **about,
        part="decode",
        tokens=batch,
        sequences=0,
        new_tokens=0,
        decode_rows=batch,
        decode_past_tokens=prompt + output / 2,
        time_s=given["token_time"] / 1e3,
    )
    return pd.concat([prefill, decode])


def _published(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    return _phases(frame, origin, {}, f"Mutinifni/splitwise-sim {origin.path.name}")


def _extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    names = {
        "prompt_size_tokens": "prompt_size",
        "output_tokens": "token_size",
        "prompt_time_median_ms": "prompt_time",
        "token_time_median_ms": "token_time",
    }
    return _phases(frame, origin, names, f"Mutinifni/splitwise-sim@8f99e7d {origin.path.name}")


LAYOUTS = (
    Layout(
        _PUBLISHER,
        "Splitwise perf_model.csv",
        _published,
        ("prompt_size", "batch_size", "token_size", "prompt_time", "token_time", "tensor_parallel"),
        ("model", "hardware"),
    ),
    Layout(
        _PUBLISHER,
        "Splitwise phase times extract",
        _extract,
        (
            "prompt_size_tokens",
            "batch_size",
            "output_tokens",
            "prompt_time_median_ms",
            "token_time_median_ms",
            "tensor_parallel",
        ),
        ("model", "hardware"),
        optional=("repeats",),
    ),
)


def read(path: str | Path, **told: str | int | None) -> Table:
    """Read a file of this publisher. Raises MeasurementError."""
    return read_with(LAYOUTS, path, **told)
