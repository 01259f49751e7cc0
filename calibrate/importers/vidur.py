"""microsoft/vidur: operations of one layer by CUDA events, fp16, milliseconds, by GPU and model folder.

`mlp.csv` times the linear and elementwise operations, `attention.csv` prefill and decode attention. The extract has
the medians of the former with device and model as columns.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibrate.importers.layout import Layout, Origin, column_or, read_with, rows
from calibrate.importers.shapes import Shape, elementwise_width, linear_features
from calibrate.table_io import Table

_PUBLISHER = "vidur"
_LINEAR = {"attn_pre_proj": "qkv", "attn_post_proj": "o", "mlp_up_proj": "gate_up", "mlp_down_proj": "down"}
_ELEMENTWISE = {
    "emb": "embedding",
    "input_layernorm": "norm",
    "attn_rope": "rotary",
    "post_attention_layernorm": "norm",
    "mlp_act": "activation",
    "add": "residual",
}
_PUBLISHED = "time_stats.{}.median"
_EXTRACT = "{}_median_ms"
_SHAPE = ("n_head", "n_kv_head", "n_embd", "n_expanded_embd", "vocab_size")


def _about(frame: pd.DataFrame, origin: Origin, source: str) -> dict[str, object]:
    return {
        "label": "measured",
        "gpu": origin.gpus(frame, "device"),
        "model": origin.models(frame, "model"),
        "tensor_parallel": frame["num_tensor_parallel_workers"],
        "weight_dtype": "fp16",
        "kv_cache_dtype": "fp16",
        "layers": 1,
        "engine": "Vidur profiler",
        "source": source,
    }


def _shape(frame: pd.DataFrame) -> Shape:
    """Return the shape of each row on one GPU; every field is a Series."""
    shared_by = frame["num_tensor_parallel_workers"]
    fields: dict[str, Any] = {
        "hidden": frame["n_embd"],
        "num_heads": frame["n_head"] / shared_by,
        "num_kv_heads": (frame["n_kv_head"] / shared_by).clip(lower=1),
        "head_dim": frame["n_embd"] / frame["n_head"],
        "intermediate": frame["n_expanded_embd"] / shared_by,
    }
    return Shape(**fields)


def _operations(frame: pd.DataFrame, origin: Origin, pattern: str, source: str) -> pd.DataFrame:
    about, shape = _about(frame, origin, source), _shape(frame)
    gated = column_or(frame, "use_gated_mlp", "true").str.lower() != "false"
    made = []
    for name, part in (_LINEAR | _ELEMENTWISE).items():
        if (column := pattern.format(name)) not in frame:
            continue
        out: Any
        into: Any
        if linear := name in _LINEAR:
            out, into = linear_features(part, shape)
            out = out.where(gated | (part != "gate_up"), out / 2)  # a plain MLP has one matrix there
        else:
            out, into = elementwise_width(part, shape), np.nan
        one = rows(
            frame,
            **about,
            operation="gemm" if linear else "elementwise",
            part=part,
            tokens=frame["num_tokens"],
            out_features=out,
            in_features=into,
            time_s=frame[column] / 1e3,
            note=f"named {name}",
        )
        made.append(one[frame[column].notna()])
    return pd.concat(made)


def _mlp(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    return _operations(frame, origin, _PUBLISHED, f"microsoft/vidur {origin.path.name}")


def _mlp_extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    return _operations(frame, origin, _EXTRACT, f"microsoft/vidur@7d47513 {origin.path.name}")


def _attention(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    """Read prefill rows (a chunk on kv_cache_size past tokens) and decode rows (kv_cache_size past tokens each)."""
    prefill = frame["is_prefill"].str.lower() == "true"
    shared_by = frame["num_tensor_parallel_workers"]
    time_ms = frame[_PUBLISHED.format("attn_prefill")].where(prefill, frame[_PUBLISHED.format("attn_decode")])
    return rows(
        frame,
        **_about(frame, origin, f"microsoft/vidur {origin.path.name}"),
        operation=np.where(prefill, "prefill_attention", "decode_attention"),
        tokens=frame["batch_size"] * frame["prefill_chunk_size"].where(prefill, 1),
        sequences=frame["batch_size"],
        new_tokens=frame["prefill_chunk_size"].where(prefill),
        past_tokens=frame["kv_cache_size"],
        num_heads=frame["n_q_head"] / shared_by,
        num_kv_heads=(frame["n_kv_head"] / shared_by).clip(lower=1),
        head_dim=frame["n_embd"] / frame["n_q_head"],
        time_s=time_ms / 1e3,
    )


LAYOUTS = (
    Layout(
        _PUBLISHER,
        "Vidur mlp.csv",
        _mlp,
        ("num_tokens", "num_tensor_parallel_workers", *_SHAPE, _PUBLISHED.format("mlp_up_proj")),
        optional_ending=".median",
    ),
    Layout(
        _PUBLISHER,
        "Vidur attention.csv",
        _attention,
        (
            "num_tensor_parallel_workers",
            "n_embd",
            "n_q_head",
            "n_kv_head",
            "batch_size",
            "prefill_chunk_size",
            "kv_cache_size",
        ),
        ("is_prefill",),
        (_PUBLISHED.format("attn_prefill"), _PUBLISHED.format("attn_decode")),
    ),
    Layout(
        _PUBLISHER,
        "Vidur linear layers extract",
        _mlp_extract,
        ("num_tokens", "num_tensor_parallel_workers", *_SHAPE),
        ("device", "model"),
        (_EXTRACT.format("mlp_up_proj"),),
        optional_ending="_median_ms",
    ),
)


def read(path: str | Path, **told: str | int | None) -> Table:
    """Read a file of this publisher. Raises MeasurementError."""
    return read_with(LAYOUTS, path, **told)
