"""Two things about attention kernels that are a choice, not a number: told from rows where a table has them.

Whether decode rows beside a prefill go through its tiles of query rows, and how many rows a tile has, shows in
mixed attention rows. Whether a prefix that rows share is read once shows in decode rows with shared_tokens.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from calibrate.fitting.groups import KV_BITS
from calibrate.fitting.robust import Vector
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile
from sim.steptime.operations import AttentionTerms, decode_attention_s, prefill_attention_s

TILES = (16, 32, 64, 128, 256)
FEWEST_ROWS = 8
ON_THEIR_OWN = 0
CLEARLY = 0.9  # narrow tiles and rows on their own read memory at the same pace: tiles must fit clearly better


Readings = Mapping[str, Mapping[str, float]]  # what is asked of the rows -> answer -> median |error| under it


def with_kernels(profile: DeviceProfile, gpu: Gpu, table: pd.DataFrame) -> tuple[DeviceProfile, Readings]:
    """Return the profile with what the table says of its kernels: the answer under which rows are least off."""
    changed: dict[str, Any] = {}
    readings: dict[str, Mapping[str, float]] = {}
    mixed = table[(table["operation"] == "mixed_attention") & (table["window"].fillna(0) == 0)]
    if len(mixed) >= FEWEST_ROWS:
        by_tile = {tile: _median(mixed, mixed_s(profile, mixed, tile)) for tile in (ON_THEIR_OWN, *TILES)}
        best = min(by_tile, key=lambda tile: by_tile[tile])
        if by_tile[best] > CLEARLY * by_tile[ON_THEIR_OWN]:
            best = ON_THEIR_OWN
        changed["decode_rows_beside_prefill"] = "in_its_tiles" if best else "on_their_own"
        changed["prefill_tile_rows"] = best or 1
        readings["mixed attention"] = {_tile_name(tile): error for tile, error in by_tile.items()}
    shared = table[(table["operation"] == "decode_attention") & (table["shared_tokens"].fillna(0) > 0)]
    if len(shared) >= FEWEST_ROWS:
        by_reads = {once: _median(shared, shared_s(profile, shared, gpu, once=once)) for once in (False, True)}
        once = by_reads[True] < by_reads[False]
        changed["shared_prefix_reads"] = "once_if_l2_holds_it" if once else "per_sequence"
        readings["shared prefix"] = {"read by each": by_reads[False], "read once": by_reads[True]}
    return msgspec.structs.replace(profile, **changed), readings


def mixed_s(profile: DeviceProfile, rows: pd.DataFrame, tile: int) -> Vector:
    """Return seconds of one prefill beside decode rows, these in tiles of so many query rows, or on their own."""
    terms = profile.attend("bf16")
    sizes = ("new_tokens", "past_tokens", "decode_rows", "decode_past_tokens")
    new, past, count, context = (rows[name].fillna(0).to_numpy(float) for name in sizes)
    heads, kv_heads, dim = _heads(rows)
    pairs = new * (past + (new + 1) / 2)
    prefill_s = prefill_attention_s(terms, pairs, new, heads, kv_heads, dim)
    if tile == ON_THEIR_OWN:
        return np.asarray(prefill_s + decode_attention_s(terms, count, count * (context + 1), kv_heads, 4 * dim))
    pair_s = 4 * heads * dim / terms.prefill_flops_per_s
    token_s = np.maximum(kv_heads * dim * 4 / terms.decode_bytes_per_s, tile * pair_s)
    short_s = np.maximum(0, (past + new) * token_s - pairs * pair_s)
    return np.asarray(prefill_s + short_s + count * (context + 1) * token_s)


def shared_s(profile: DeviceProfile, rows: pd.DataFrame, gpu: Gpu, *, once: bool) -> Vector:
    """Return seconds of decode rows that share a prefix, read by each of them or once where the L2 holds it."""
    _, kv_heads, dim = _heads(rows)
    bits = rows["kv_cache_dtype"].map(KV_BITS).fillna(KV_BITS["bf16"]).to_numpy(float)
    head_bytes = 2 * dim * bits / 8
    count, past, prefix = (rows[name].to_numpy(float) for name in ("sequences", "past_tokens", "shared_tokens"))
    held = prefix * kv_heads * head_bytes <= (gpu.l2_bytes or 0)
    saved = np.where(held & once, (count - 1) * prefix, 0.0)
    terms: AttentionTerms = profile.attend("bf16")
    return np.asarray(decode_attention_s(terms, count, count * (past + 1) - saved, kv_heads, head_bytes))


def _heads(rows: pd.DataFrame) -> tuple[Vector, Vector, Vector]:
    heads, kv_heads, dim = (rows[name].to_numpy(float) for name in ("num_heads", "num_kv_heads", "head_dim"))
    return heads, kv_heads, dim


def _median(rows: pd.DataFrame, predicted: Vector) -> float:
    return float(np.median(np.abs(predicted / rows["time_s"].to_numpy(float) - 1)))


def _tile_name(tile: int) -> str:
    return f"tiles of {tile}" if tile else "rows on their own"
