"""The least time physics allows for a row, and the rows that claim less.

A bound is the larger of FLOPs over the tensor cores' peak and bytes over the memory's bandwidth. Operations are timed
in loops, so up to the L2 size of their traffic may never touch memory: only what exceeds it counts as bytes.
NaN where the GPU, the model or a size is not known.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from calibrate.known import known_gpu, known_model
from sim.catalog import LINEAR_WEIGHT_BYTES, Gpu

Array = npt.NDArray[np.float64]

TOLERANCE = 0.05  # cards may clock this much above the data sheet's boost
SLOW = 5.0
WRONG_UNIT = 500.0  # times the bound; the slowest kernel of the public tables takes 214
MEANINGFUL_S = 20e-6  # below this a row times launch overhead
L2_WHERE_UNKNOWN_BYTES = 128 * 2**20  # the largest of today's cards
_WEIGHT_BYTES = {**LINEAR_WEIGHT_BYTES, "fp32": 4.0, "fp8_block": 1.0, "mxfp4": 0.53}
_KV_BYTES = {"": 2.0, "fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
_EIGHT_BITS = ("fp8", "fp8_block", "int8")


@dataclass(frozen=True, slots=True)
class LightCheck:
    """Each row against its bound, by position."""

    bound_s: Array
    too_fast: npt.NDArray[np.bool_]
    too_slow: npt.NDArray[np.bool_]
    slow: npt.NDArray[np.bool_]


def check_light_speed(frame: pd.DataFrame) -> LightCheck:
    """Compare a table with its bounds: too fast to be true, over WRONG_UNIT times as slow, over SLOW times."""
    bound = bound_s(frame)
    time_s = frame["time_s"].to_numpy(dtype=float)
    with np.errstate(invalid="ignore"):
        too_fast = time_s < bound * (1 - TOLERANCE)
        too_slow = time_s > np.maximum(bound, MEANINGFUL_S) * WRONG_UNIT
        slow = (time_s > bound * SLOW) & (bound > MEANINGFUL_S)
    return LightCheck(bound, too_fast, too_slow, slow)


def bound_s(frame: pd.DataFrame) -> Array:
    """Return the least seconds each row of a measurement table can take, NaN where that is not known."""
    bound = np.full(len(frame), np.nan)
    operation = frame["operation"].to_numpy()
    for name, demand in _DEMANDS.items():
        chosen = operation == name
        if not chosen.any():
            continue
        some = frame[chosen]
        card = _cards(some)
        flops, moved = demand(some)
        with np.errstate(invalid="ignore"):
            outside_l2 = np.maximum(moved - card.l2_bytes, 0.0)
        bound[chosen] = np.fmax(flops / card.flops, outside_l2 / card.bandwidth)
    chosen = operation == "allreduce"
    if chosen.any():
        bound[chosen] = _allreduce_s(frame[chosen])
    return bound


@dataclass(frozen=True, slots=True)
class _Cards:
    """What the GPU of each row offers, at the number type it computes in."""

    flops: Array
    bandwidth: Array
    l2_bytes: Array


def _cards(frame: pd.DataFrame) -> _Cards:
    attends = frame["operation"].str.endswith("attention")
    dtype = frame["kv_cache_dtype"].where(attends, frame["weight_dtype"])
    sixteen_bit, eight_bit, bandwidth, l2 = _look_up(frame["gpu"], _card_facts)
    return _Cards(np.where(dtype.isin(_EIGHT_BITS), eight_bit, sixteen_bit), bandwidth, l2)


def _look_up(names: pd.Series, facts: Callable[[str], tuple[float, ...]]) -> Array:
    """Return a row per fact and a column per name, each distinct name looked up once."""
    codes, distinct = pd.factorize(names)
    found: Array = np.array([facts(name) for name in distinct], dtype=float).T[:, codes]
    return found


def _card_facts(name: str) -> tuple[float, ...]:
    card = known_gpu(name)
    if card is None:
        return (np.nan,) * 4
    return card.bf16_flops, _eight_bit_flops(card), card.bandwidth_bytes_per_s, _l2_bytes(card)


def _eight_bit_flops(card: Gpu) -> float:
    """Return the 8-bit peak; cards without fp8 multiply int8 twice as fast as bf16."""
    return card.fp8_flops or 2 * card.bf16_flops


def _l2_bytes(card: Gpu) -> float:
    return float(card.l2_bytes or L2_WHERE_UNKNOWN_BYTES)


def _gemm(frame: pd.DataFrame, rows: str = "tokens") -> tuple[Array, Array]:
    tokens, out, into = (frame[name].to_numpy() for name in (rows, "out_features", "in_features"))
    weight_bytes = _bytes_each(frame["weight_dtype"], _WEIGHT_BYTES)
    input_bytes = np.minimum(weight_bytes, 2.0) * tokens * into
    return 2 * tokens * out * into, weight_bytes * out * into + input_bytes + 2 * tokens * out


def _head(frame: pd.DataFrame) -> tuple[Array, Array]:
    return _gemm(frame.assign(weight_dtype="bf16"), "sequences")


def _prefill(frame: pd.DataFrame) -> tuple[Array, Array]:
    sequences = frame["sequences"].to_numpy()
    return _prefill_half(frame, np.where(np.isnan(sequences), 1.0, sequences))


def _prefill_half(frame: pd.DataFrame, sequences: Array) -> tuple[Array, Array]:
    new, past = frame["new_tokens"].to_numpy(), frame["past_tokens"].fillna(0).to_numpy()
    pairs = sequences * visible_pairs(new, past, _window(frame))
    queries = sequences * new * (frame["num_heads"] * frame["head_dim"]).to_numpy()
    kept = np.minimum(new + past, _window(frame) + new)
    return _pair_flops(frame) * pairs, 4 * queries + _kv_bytes_a_token(frame) * sequences * kept


def _decode(frame: pd.DataFrame) -> tuple[Array, Array]:
    return _decode_half(frame, frame["sequences"].to_numpy(), frame["past_tokens"].to_numpy())


def _decode_half(frame: pd.DataFrame, sequences: Array, past: Array) -> tuple[Array, Array]:
    seen = np.minimum(past, _window(frame))
    shared = np.minimum(frame["shared_tokens"].fillna(0).to_numpy(), seen)
    distinct = shared + sequences * (seen - shared)
    return _pair_flops(frame) * sequences * seen, _kv_bytes_a_token(frame) * distinct


def _mixed(frame: pd.DataFrame) -> tuple[Array, Array]:
    flops, moved = _prefill_half(frame, np.ones(len(frame)))
    decode = _decode_half(frame, frame["decode_rows"].to_numpy(), frame["decode_past_tokens"].fillna(0).to_numpy())
    return flops + decode[0], moved + decode[1]


def visible_pairs(new: Array, past: Array, window: Array) -> Array:
    """Return the (query, key) pairs of `new` queries after `past` tokens, each seeing at most `window` keys."""
    growing = np.clip(window - past, 0, new)  # queries whose whole context is inside the window
    full = np.where(np.isinf(window), 0.0, window) * (new - growing)
    return growing * past + growing * (growing + 1) / 2 + full


def _elementwise(frame: pd.DataFrame) -> tuple[Array, Array]:
    moved = 2 * (frame["tokens"] * frame["out_features"]).to_numpy()
    return np.zeros(len(frame)), moved


def _moe(frame: pd.DataFrame) -> tuple[Array, Array]:
    """Gated experts: three matrices each; where it is not known which are met, one token's worth are."""
    expert = 3 * (frame["in_features"] * frame["out_features"]).to_numpy()
    chosen = frame["experts_per_token"].to_numpy()
    met = np.fmax(frame["experts_active"].to_numpy(), np.minimum(chosen, frame["experts"].to_numpy()))
    weight_bytes = _bytes_each(frame["weight_dtype"], _WEIGHT_BYTES)
    return 2 * frame["tokens"].to_numpy() * chosen * expert, weight_bytes * met * expert


def _copy(frame: pd.DataFrame) -> tuple[Array, Array]:
    return np.zeros(len(frame)), frame["bytes"].to_numpy()


def _step(frame: pd.DataFrame) -> tuple[Array, Array]:
    """Return the layers' share of a model's work without the head, at least; steps and single layers alike."""
    linear, pair, kv, depth = _look_up(frame["model"], _model_facts)
    timed = np.fmin(frame["layers"].to_numpy(), depth)
    share = np.where(np.isnan(timed), depth, timed) / depth / frame["tensor_parallel"].fillna(1).to_numpy()
    new, past, requests = (frame[name].fillna(0).to_numpy() for name in ("new_tokens", "past_tokens", "sequences"))
    decoding, decode_past = (frame[name].fillna(0).to_numpy() for name in ("decode_rows", "decode_past_tokens"))
    pairs = requests * visible_pairs(new, past, np.full(len(frame), np.inf)) + decoding * decode_past
    shared = frame["shared_tokens"].fillna(0).to_numpy()
    kept = requests * np.maximum(past - shared, 0) + decoding * np.maximum(decode_past - shared, 0) + shared
    flops = share * (2 * linear * frame["tokens"].to_numpy() + pair * pairs)
    moved = share * (
        linear * _bytes_each(frame["weight_dtype"], _WEIGHT_BYTES)
        + kv * _bytes_each(frame["kv_cache_dtype"], _KV_BYTES) * kept
    )
    return flops, moved


def _model_facts(name: str) -> tuple[float, ...]:
    """Return weights a token meets, FLOPs a (query, key) pair, KV elements a token, and layers."""
    model = known_model(name)
    if model is None:
        return (np.nan,) * 4
    kv = 2 * model.num_hidden_layers * model.num_key_value_heads * model.head_dim
    return model.active_linear_params, model.attention_flops_per_pair, kv, model.num_hidden_layers


def _layer(frame: pd.DataFrame) -> tuple[Array, Array]:
    return _step(frame.assign(layers=frame["layers"].fillna(1.0), sequences=0.0, new_tokens=0.0, past_tokens=0.0))


_DEMANDS = {  # operation: (FLOPs, bytes) of each row
    "gemm": _gemm,
    "head": _head,
    "prefill_attention": _prefill,
    "decode_attention": _decode,
    "mixed_attention": _mixed,
    "elementwise": _elementwise,
    "moe": _moe,
    "copy": _copy,
    "step": _step,
    "layer": _layer,
}


def _allreduce_s(frame: pd.DataFrame) -> Array:
    """Each GPU must at least receive what the others hold, one way, over its fastest link."""
    (link,) = _look_up(frame["gpu"], lambda name: (_link(name),))
    shared_by = frame["tensor_parallel"].to_numpy()
    seconds: Array = frame["bytes"].to_numpy() * (shared_by - 1) / shared_by / link
    return seconds


def _link(name: str) -> float:
    card = known_gpu(name)
    return np.nan if card is None else card.nvlink_bytes_per_s or card.pcie_bytes_per_s


def _window(frame: pd.DataFrame) -> Array:
    window: Array = frame["window"].fillna(0).to_numpy(dtype=float)
    return np.where(window > 0, window, np.inf)


def _pair_flops(frame: pd.DataFrame) -> Array:
    flops: Array = 4 * (frame["num_heads"] * frame["head_dim"]).to_numpy(dtype=float)
    return flops


def _kv_bytes_a_token(frame: pd.DataFrame) -> Array:
    elements: Array = 2 * (frame["num_kv_heads"] * frame["head_dim"]).to_numpy(dtype=float)
    return elements * _bytes_each(frame["kv_cache_dtype"], _KV_BYTES)


def _bytes_each(dtypes: pd.Series, sizes: dict[str, float]) -> Array:
    """Return bytes an element; a type that is not known is taken as 4 bits, which keeps the bound low."""
    each: Array = _look_up(dtypes, lambda name: (sizes.get(name, 0.5),))[0]
    return each
