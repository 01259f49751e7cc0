"""casys-kaist/LLMServingSim: operations of one layer inside vLLM, microseconds, by GPU, model and tp folder.

`attention` times a mixed batch: prefill_chunk new tokens on kv_prefill past ones beside n_decode rows on kv_decode
each; either half may be absent. `skew` times decode rows of two lengths three ways, and sums its three passes: on
3,250 shapes that both files hold it is 3.04 times the attention file (deviation 0.03), so a third is taken. The older
profile (`v0`) is in nanoseconds and milliseconds and holds the profiler's own cost: good for ratios.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from calibrate.importers.layout import Layout, Origin, column_or, read_with, rows
from calibrate.importers.shapes import elementwise_width, linear_features, shape_of, shapes
from calibrate.table_io import Table

_PUBLISHER = "llmservingsim"
_SOURCE = "casys-kaist/LLMServingSim"
_SKEW_PASSES = 3
_SKEW_WAYS = (("t_mean_us", "kv_mean", ""), ("t_max_us", "kv_big", ""), ("t_skew_us", "kv_mean", "skewed"))
_LINEAR = {
    "qkv_proj": "qkv",
    "q_proj": "q",
    "k_proj": "k",
    "v_proj": "v",
    "o_proj": "o",
    "gate_up_proj": "gate_up",
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
}
_ELEMENTWISE = {
    "act_fn": "activation",
    "embedding": "embedding",
    "layernorm": "norm",
    "input_layernorm": "norm",
    "post_layernorm": "norm",
    "final_layernorm": "final_norm",
    "qk_norm": "qk_norm",
    "rotary_emb": "rotary",
    "rope": "rotary",
}


def _about(frame: pd.DataFrame, origin: Origin, tp_column: str = "tp") -> dict[str, object]:
    dtype = origin.weight_dtype("bf16")
    return {
        "label": "measured",
        "gpu": origin.gpus(frame, "hardware"),
        "model": origin.models(frame, "model", needed=True),
        "tensor_parallel": origin.tensor_parallels(frame, tp_column),
        "weight_dtype": dtype,
        "kv_cache_dtype": "bf16",
        "graph": "eager",
        "layers": 1,
        "engine": "vLLM 0.19.0",
        "source": f"{_SOURCE} {origin.path.name}",
    }


def _heads(about: dict[str, object]) -> dict[str, object]:
    shape = shapes(about["model"], about["tensor_parallel"])
    return {name: shape[name] for name in ("num_heads", "num_kv_heads", "head_dim")}


def _attention(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    about = _about(frame, origin)
    mixed = _mixed(frame["prefill_chunk"], frame["kv_prefill"], frame["n_decode"], frame["kv_decode"])
    return rows(frame, **about, **_heads(about), **mixed, time_s=frame["time_us"] / 1e6)


def _mixed(new: pd.Series, past: pd.Series, count: pd.Series, decode_past: pd.Series) -> dict[str, object]:
    """Return prefill, decode or mixed rows, whichever halves there are."""
    prefills, decodes = new > 0, count > 0
    both = prefills & decodes
    names = np.select([both, prefills, decodes], ["mixed_attention", "prefill_attention", "decode_attention"], "")
    return {
        "operation": names,
        "tokens": new + count,
        "sequences": count.where(~prefills, 1),
        "new_tokens": new.where(prefills),
        "past_tokens": past.where(prefills, decode_past),
        "decode_rows": count.where(both),
        "decode_past_tokens": decode_past.where(both),
    }


def _skew(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    """Return three rows a line: all contexts at the mean, all at the largest, and as they were (`part` skewed)."""
    about = _about(frame, origin)
    one = rows(frame, **about, **_heads(about))
    big, small, count = (frame[name].map("{:.0f}".format) for name in ("kv_big", "kvs", "nb"))
    ways = []
    for time, context, part in _SKEW_WAYS:
        mixed = _mixed(frame["pc"], frame["kp"], frame["n"], frame[context])
        way = one.assign(**mixed, part=part, time_s=frame[time] / 1e6 / _SKEW_PASSES)
        if part:
            alone = way["operation"] == "decode_attention"
            way["past_tokens_low"], way["past_tokens_high"] = frame["kvs"].where(alone), frame["kv_big"].where(alone)
            way["note"] = count + " decode rows on " + big + " tokens, the others on " + small
        ways.append(way)
    return pd.concat(ways)


def _layers(frame: pd.DataFrame, layer: pd.Series, tokens: pd.Series, about: dict[str, object]) -> pd.DataFrame:
    """Return linear layers, elementwise kernels, head and sampler, by the publisher's names of them."""
    part = layer.map(lambda name: _LINEAR.get(name, _ELEMENTWISE.get(name, name)))
    known = [shape_of(*key) for key in zip(about["model"], about["tensor_parallel"], strict=True)]  # type: ignore[call-overload]
    features = [
        linear_features(name, shape) if name in _LINEAR.values() else (elementwise_width(name, shape), np.nan)
        for name, shape in zip(part, known, strict=True)
    ]
    head, sampler = layer == "lm_head", layer == "sampler"
    vocabulary = pd.Series([shape.vocabulary for shape in known], index=frame.index)
    hidden = pd.Series([shape.hidden for shape in known], index=frame.index)
    features = pd.DataFrame(features, columns=["out", "in"], index=frame.index, dtype=float)
    per_sequence = head | sampler
    linear, elementwise = layer.isin(list(_LINEAR)), layer.isin(list(_ELEMENTWISE))
    names = np.select([linear, elementwise, head, sampler], ["gemm", "elementwise", "head", "sampling"], layer)
    return rows(
        frame,
        **about,
        operation=names,
        part=part.where(~per_sequence, ""),
        tokens=tokens,
        sequences=tokens.where(per_sequence),
        out_features=features["out"].mask(per_sequence, vocabulary),
        in_features=features["in"].mask(head, hidden),
        note=("named " + layer).where(linear | elementwise, ""),
    )


def _dense(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    made = _layers(frame, frame["layer"], frame["tokens"], _about(frame, origin))
    return made.assign(time_s=frame["time_us"] / 1e6)


def _per_sequence(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    made = _layers(frame, frame["layer"], frame["sequences"], _about(frame, origin))
    return made.assign(time_s=frame["time_us"] / 1e6)


def _moe(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    about = _about(frame, origin)
    shape = shapes(about["model"], about["tensor_parallel"])
    return rows(
        frame,
        **about,
        operation="moe",
        tokens=frame["tokens"],
        out_features=shape["expert_intermediate"],
        in_features=shape["hidden"],
        experts=shape["experts"] / column_or(frame, "ep", 1.0),
        experts_per_token=shape["experts_per_token"],
        experts_active=frame["activated_experts"],
        time_s=frame["time_us"] / 1e6,
    )


def _about_v0(frame: pd.DataFrame, origin: Origin, tp_column: str = "tp_size") -> dict[str, object]:
    return _about(frame, origin, tp_column) | {"engine": "PyTorch profiler"}


def _v0_layers(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    """Read the older layers file; its `attn` is a prefill of all tokens as one request."""
    about = _about_v0(frame, origin)
    tokens = frame["tokens"] if "tokens" in frame else frame["input"]
    latency_ns = frame["latency_ns"] if "latency_ns" in frame else frame["latency(ns)"]
    made = _layers(frame, frame["layer_name"], tokens, about).assign(time_s=latency_ns / 1e9)
    attention = frame["layer_name"] == "attn"
    heads = rows(frame, **_heads(about))
    made["operation"] = made["operation"].mask(attention, "prefill_attention")
    made["part"] = made["part"].mask(attention, "")
    made["note"] = "profiler's cost inside; " + made["note"]
    filled = {"sequences": 1.0, "new_tokens": tokens, "past_tokens": frame["kv_cache"]}
    for name, values in {**filled, **{name: heads[name] for name in heads}}.items():
        old = made[name] if name in made else pd.Series(np.nan, index=made.index)
        made[name] = old.mask(attention, values)
    return made


def _v0_attention(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    about = _about_v0(frame, origin)
    prefill = frame["phase"] == "prefill"
    tokens = frame["batch_size"] * frame["prefill_chunk_size"].where(prefill, 1)
    return rows(
        frame,
        **about,
        **_heads(about),
        operation=np.where(prefill, "prefill_attention", "decode_attention"),
        tokens=tokens,
        sequences=frame["batch_size"],
        new_tokens=frame["prefill_chunk_size"].where(prefill),
        past_tokens=frame["kv_cache_size"],
        time_s=frame["attn_median_ms"] / 1e3,
    )


_SKEW = ("n", "nb", "pc", "kp", "kvs", "kv_big", "kv_mean", "t_mean_us", "t_max_us", "t_skew_us")
_BATCH = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
LAYOUTS = (
    Layout(_PUBLISHER, "LLMServingSim attention", _attention, _BATCH, optional=("tp",)),
    Layout(_PUBLISHER, "LLMServingSim dense", _dense, ("tokens", "time_us"), ("layer",), optional=("tp",)),
    Layout(
        _PUBLISHER, "LLMServingSim per_sequence", _per_sequence, ("sequences", "time_us"), ("layer",), optional=("tp",)
    ),
    Layout(_PUBLISHER, "LLMServingSim moe", _moe, ("tokens", "activated_experts", "time_us"), optional=("tp", "ep")),
    Layout(_PUBLISHER, "LLMServingSim skew", _skew, _SKEW, optional=("tp",)),
    Layout(
        _PUBLISHER,
        "LLMServingSim v0 layers",
        _v0_layers,
        ("input", "kv_cache", "tp_size", "latency(ns)"),
        ("layer_name",),
    ),
    Layout(
        _PUBLISHER,
        "LLMServingSim v0 layers extract",
        _v0_layers,
        ("tokens", "kv_cache", "tp_size", "latency_ns"),
        ("layer_name", "hardware", "model"),
    ),
    Layout(
        _PUBLISHER,
        "LLMServingSim v0 attention extract",
        _v0_attention,
        ("batch_size", "prefill_chunk_size", "kv_cache_size", "attn_median_ms"),
        ("hardware", "model", "phase"),
    ),
)


def read(path: str | Path, **told: str | int | None) -> Table:
    """Read a file of this publisher. Raises MeasurementError."""
    return read_with(LAYOUTS, path, **told)
