"""Two things about attention kernels that are a choice, not a number: told from rows where a table has them.

Whether decode rows beside a prefill go through its tiles of query rows, and how many rows a tile has, shows in
mixed attention rows. Whether a prefix that rows share is read once shows in decode rows with shared_tokens.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from calibrate.fitting.groups import FOUR_BITS, KV_BITS, by_kv_family
from calibrate.fitting.robust import Vector
from sim.catalog import Gpu
from sim.steptime.device import DeviceProfile
from sim.steptime.operations import decode_attention_s, prefill_attention_s

TILES = (16, 32, 64, 128, 256)
FEWEST_ROWS = 8
ON_THEIR_OWN = 0
CLEARLY = 0.9  # narrow tiles and rows on their own read memory at the same pace: tiles must fit clearly better

Readings = Mapping[str, Mapping[str, float]]  # what is asked of the rows -> answer -> median |error| under it


def with_kernels(profile: DeviceProfile, gpu: Gpu, table: pd.DataFrame) -> tuple[DeviceProfile, Readings]:
    """Return the profile with what the table says of its kernels: the answer under which rows are least off."""
    changed: dict[str, Any] = {}
    readings: dict[str, Mapping[str, float]] = {}
    by_operation = {str(name): rows for name, rows in table.groupby("operation", sort=False)}
    mixed = list(by_kv_family(by_operation.get("mixed_attention")))
    if sum(len(rows) for _, rows in mixed) >= FEWEST_ROWS:
        by_tile = {
            tile: _median((rows, mixed_s(profile, family, rows, tile)) for family, rows in mixed)
            for tile in (ON_THEIR_OWN, *TILES)
        }
        best = min(by_tile, key=lambda tile: by_tile[tile])
        if by_tile[best] > CLEARLY * by_tile[ON_THEIR_OWN]:
            best = ON_THEIR_OWN
        changed["decode_rows_beside_prefill"] = "in_its_tiles" if best else "on_their_own"
        changed["prefill_tile_rows"] = best or 1
        readings["mixed attention"] = {_tile_name(tile): error for tile, error in by_tile.items()}
    decode = list(by_kv_family(by_operation.get("decode_attention")))
    shared = [(family, rows[rows["shared_tokens"].fillna(0) > 0]) for family, rows in decode]
    if sum(len(rows) for _, rows in shared) >= FEWEST_ROWS:
        by_reads = {
            once: _median((rows, shared_s(profile, family, rows, gpu, once=once)) for family, rows in shared)
            for once in (False, True)
        }
        once = by_reads[True] < by_reads[False]
        changed["shared_prefix_reads"] = "once_if_l2_holds_it" if once else "per_sequence"
        readings["shared prefix"] = {"read by each": by_reads[False], "read once": by_reads[True]}
    return msgspec.structs.replace(profile, **changed), readings


def mixed_s(profile: DeviceProfile, family: str, rows: pd.DataFrame, tile: int) -> Vector:
    """Return seconds of one prefill beside decode rows, these in tiles of so many query rows, or on their own."""
    terms = profile.attend(family)
    sizes = ("new_tokens", "past_tokens", "decode_rows", "decode_past_tokens")
    new, past, count, context = (rows[name].fillna(0).to_numpy(float) for name in sizes)
    heads, kv_heads, dim = _heads(rows)
    pairs = new * (past + (new + 1) / 2)
    prefill_s = prefill_attention_s(terms, pairs, new, heads, kv_heads, dim)
    head_bytes = _head_bytes(dim, family)
    if tile == ON_THEIR_OWN:
        return np.asarray(prefill_s + decode_attention_s(terms, count, count * (context + 1), kv_heads, head_bytes))
    packed = heads / kv_heads if profile.prefill_packs_query_heads else 1.0
    pair_s = 4 * heads * dim / terms.prefill_flops_per_s
    token_s = np.maximum(kv_heads * head_bytes / terms.decode_bytes_per_s, tile / packed * pair_s)
    short_s = np.maximum(0, (past + new) * token_s - pairs * pair_s)
    return np.asarray(prefill_s + short_s + count * (context + 1) * token_s)


def shared_s(profile: DeviceProfile, family: str, rows: pd.DataFrame, gpu: Gpu, *, once: bool) -> Vector:
    """Return seconds of decode rows that share a prefix, read by each of them or once where the L2 holds it."""
    _, kv_heads, dim = _heads(rows)
    head_bytes = _head_bytes(dim, family)
    count, past, prefix = (rows[name].to_numpy(float) for name in ("sequences", "past_tokens", "shared_tokens"))
    held = prefix * kv_heads * head_bytes <= (gpu.l2_bytes or 0)
    saved = np.where(held & once, (count - 1) * prefix, 0.0)
    return np.asarray(
        decode_attention_s(profile.attend(family), count, count * (past + 1) - saved, kv_heads, head_bytes)
    )


def _heads(rows: pd.DataFrame) -> tuple[Vector, Vector, Vector]:
    heads, kv_heads, dim = (rows[name].to_numpy(float) for name in ("num_heads", "num_kv_heads", "head_dim"))
    return heads, kv_heads, dim


def _head_bytes(dim: Vector, family: str) -> Vector:
    return np.asarray(2 * dim * KV_BITS.get(family, FOUR_BITS) / 8)


def _median(parts: Iterable[tuple[pd.DataFrame, Vector]]) -> float:
    errors = [np.abs(predicted / rows["time_s"].to_numpy(float) - 1) for rows, predicted in parts]
    return float(np.median(np.concatenate(errors)))


def _tile_name(tile: int) -> str:
    return f"tiles of {tile}" if tile else "rows on their own"
