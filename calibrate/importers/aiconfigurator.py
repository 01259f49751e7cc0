"""ai-dynamo/aiconfigurator: single operations timed in a loop, milliseconds.

A loop over one layer's operation is served by the L2 cache where it fits: decode rows below the L2 size are faster
than memory allows. Both the published files (gemm_perf and the like) and the extract with a column a type.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from calibrate.importers.layout import Layout, Origin, column_or, read_with, rows
from calibrate.importers.names import dtype_name
from calibrate.table_io import Table

_PUBLISHER = "aiconfigurator"
_SOURCE = "ai-dynamo/aiconfigurator"
_EXTRACT = f"{_SOURCE}@095f58a"
_BF16_BYTES = 2
_ALLREDUCE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


def _by_dtype(frame: pd.DataFrame, one: pd.DataFrame, column: str, latencies: dict[str, str]) -> pd.DataFrame:
    """Return the rows once for each latency column, where it is filled, with its type in `column`."""
    parts = [
        one.assign(**{column: dtype, "time_s": frame[latency] / 1e3})[frame[latency].notna()]
        for latency, dtype in latencies.items()
    ]
    return pd.concat(parts)


def _about(frame: pd.DataFrame, origin: Origin) -> dict[str, object]:
    """Return what all published files of this project say about a row."""
    engine = column_or(frame, "framework", "vLLM") + " " + column_or(frame, "version", "")
    kernel = column_or(frame, "kernel_source", "")
    return {
        "label": "measured",
        "gpu": origin.gpus(frame, "device"),
        "engine": engine.str.strip(),
        "source": f"{_SOURCE} {origin.path.name}",
        "note": ("kernel " + kernel).where(kernel != "", ""),
        "layers": 1,
    }


def _about_extract(frame: pd.DataFrame, origin: Origin) -> dict[str, object]:
    return {
        "label": "measured",
        "gpu": origin.gpus(frame, "system"),
        "engine": "vLLM " + column_or(frame, "vllm_version", ""),
        "source": f"{_EXTRACT} {origin.path.name}",
        "layers": 1,
    }


def _gemm_shape(frame: pd.DataFrame) -> dict[str, object]:
    return {"operation": "gemm", "tokens": frame["m"], "out_features": frame["n"], "in_features": frame["k"]}


def _gemm(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    dtype = frame["gemm_dtype"].map(dtype_name)
    return rows(frame, **_about(frame, origin), **_gemm_shape(frame), weight_dtype=dtype, time_s=frame["latency"] / 1e3)


def _gemm_extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    one = rows(frame, **_about_extract(frame, origin), **_gemm_shape(frame))
    latencies = {"latency_bfloat16_ms": "bf16", "latency_fp8_ms": "fp8", "latency_fp8_block_ms": "fp8_block"}
    return _by_dtype(frame, one, "weight_dtype", latencies)


def _attention_shape(frame: pd.DataFrame) -> dict[str, object]:
    return {
        "sequences": frame["batch_size"],
        "num_heads": frame["num_heads"],
        "num_kv_heads": frame["num_key_value_heads"],
        "head_dim": column_or(frame, "head_dim", 128.0),
        "window": column_or(frame, "window_size", 0.0),
    }


def _attention(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    """Read context_attention (`isl` new tokens on `step` past) and generation_attention (one token on `step`)."""
    decode = frame["op_name"].str.startswith("generation")
    return rows(
        frame,
        **_about(frame, origin),
        **_attention_shape(frame),
        operation=np.where(decode, "decode_attention", "prefill_attention"),
        tokens=frame["batch_size"] * frame["isl"].where(~decode, 1),
        new_tokens=frame["isl"].where(~decode),
        past_tokens=frame["step"],
        kv_cache_dtype=frame["kv_cache_dtype"].map(dtype_name),
        time_s=frame["latency"] / 1e3,
    )


def _prefill_extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    one = rows(
        frame,
        **_about_extract(frame, origin),
        **_attention_shape(frame),
        operation="prefill_attention",
        tokens=frame["batch_size"] * frame["isl"],
        new_tokens=frame["isl"],
        past_tokens=0,
    )
    return _by_dtype(frame, one, "kv_cache_dtype", _KV_LATENCIES)


def _decode_extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    one = rows(
        frame,
        **_about_extract(frame, origin),
        **_attention_shape(frame),
        operation="decode_attention",
        tokens=frame["batch_size"],
        past_tokens=frame["past_kv_tokens"],
    )
    return _by_dtype(frame, one, "kv_cache_dtype", _KV_LATENCIES)


_KV_LATENCIES = {"latency_kv_bfloat16_ms": "bf16", "latency_kv_fp8_ms": "fp8"}


def _moe_shape(frame: pd.DataFrame) -> dict[str, object]:
    """Return the shape on one GPU; balanced routing meets as many experts as it can, others are not known."""
    experts = frame["num_experts"] / column_or(frame, "moe_ep_size", 1.0)
    met = np.minimum(experts, frame["num_tokens"] * frame["topk"])
    return {
        "operation": "moe",
        "tokens": frame["num_tokens"],
        "tensor_parallel": frame["moe_tp_size"],
        "weight_dtype": frame["moe_dtype"].map(dtype_name),
        "out_features": frame["inter_size"] / frame["moe_tp_size"],
        "in_features": frame["hidden_size"],
        "experts": experts,
        "experts_per_token": frame["topk"],
        "experts_active": met.where(frame["distribution"] == "balanced"),
        "note": "routing " + frame["distribution"] + ", kernel " + frame["kernel_source"],
    }


def _moe(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    return rows(frame, **(_about(frame, origin) | _moe_shape(frame)), time_s=frame["latency"] / 1e3)


def _moe_extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    model = origin.models(frame, "shape_of")
    about = _about_extract(frame, origin) | _moe_shape(frame)
    return rows(frame, **about, model=model, time_s=frame["latency_ms"] / 1e3)


def _allreduce(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    element_bytes = frame["allreduce_dtype"].map(dtype_name).map(_ALLREDUCE_BYTES).astype(float)
    kernel = column_or(frame, "kernel_source", "")
    graph = np.select([kernel.str.contains("graph"), kernel.str.contains("eager")], ["cuda_graph", "eager"], "")
    return rows(
        frame,
        **_about(frame, origin),
        operation="allreduce",
        tensor_parallel=frame["num_gpus"],
        graph=graph,
        bytes=frame["message_size"] * element_bytes,
        time_s=frame["latency"] / 1e3,
    )


def _allreduce_extract(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    one = rows(
        frame,
        **_about_extract(frame, origin),
        operation="allreduce",
        tensor_parallel=frame["num_gpus"],
        bytes=frame["message_size_bf16_elements"] * _BF16_BYTES,
    )
    return _by_dtype(frame, one, "graph", {"latency_eager_ms": "eager", "latency_cuda_graph_ms": "cuda_graph"})


_HEADS = ("batch_size", "num_heads", "num_key_value_heads")
_EXPERTS = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size")
_ROUTING = ("moe_dtype", "distribution", "kernel_source")
_KV_GAPS = tuple(_KV_LATENCIES)

LAYOUTS = (
    Layout(_PUBLISHER, "aiconfigurator gemm_perf", _gemm, ("m", "n", "k", "latency"), ("gemm_dtype",)),
    Layout(
        _PUBLISHER,
        "aiconfigurator context_attention_perf or generation_attention_perf",
        _attention,
        (*_HEADS, "isl", "step", "latency"),
        ("op_name", "kv_cache_dtype"),
        optional=("head_dim", "window_size"),
    ),
    Layout(_PUBLISHER, "aiconfigurator moe_perf", _moe, (*_EXPERTS, "latency"), _ROUTING, optional=("moe_ep_size",)),
    Layout(
        _PUBLISHER,
        "aiconfigurator custom_allreduce_perf",
        _allreduce,
        ("num_gpus", "message_size", "latency"),
        ("allreduce_dtype",),
    ),
    Layout(
        _PUBLISHER,
        "aiconfigurator gemm extract",
        _gemm_extract,
        ("m", "n", "k"),
        ("system",),
        ("latency_bfloat16_ms", "latency_fp8_ms", "latency_fp8_block_ms"),
    ),
    Layout(
        _PUBLISHER,
        "aiconfigurator prefill attention extract",
        _prefill_extract,
        (*_HEADS, "head_dim", "isl"),
        ("system",),
        _KV_GAPS,
        ("window_size",),
    ),
    Layout(
        _PUBLISHER,
        "aiconfigurator decode attention extract",
        _decode_extract,
        (*_HEADS, "head_dim", "past_kv_tokens"),
        ("system",),
        _KV_GAPS,
        ("window_size",),
    ),
    Layout(_PUBLISHER, "aiconfigurator moe extract", _moe_extract, (*_EXPERTS, "latency_ms"), ("system", *_ROUTING)),
    Layout(
        _PUBLISHER,
        "aiconfigurator allreduce extract",
        _allreduce_extract,
        ("num_gpus", "message_size_bf16_elements"),
        ("system",),
        ("latency_eager_ms", "latency_cuda_graph_ms"),
    ),
)


def read(path: str | Path, **told: str | int | None) -> Table:
    """Read a file of this publisher. Raises MeasurementError."""
    return read_with(LAYOUTS, path, **told)
