"""Whether rows go in tiles, and whether a shared prefix is read once, is told from the rows that show it."""

import msgspec
import numpy as np
import pandas as pd
import pytest

from calibrate.fitting.kernels import ON_THEIR_OWN, mixed_s, shared_s, with_kernels
from calibrate.fitting.start import assumed_device
from calibrate.fitting.terms import with_values
from calibrate.measurements import NAMES
from sim.catalog import load_gpu

GPU = load_gpu("RTX 4090")
PROFILE = assumed_device(GPU)


def table(operation: str, **columns: object) -> pd.DataFrame:
    """Return rows of one operation; what is not given is empty."""
    count = max(len(value) for value in columns.values() if isinstance(value, list))
    frame = pd.DataFrame(columns=list(NAMES), index=range(count))
    frame["operation"] = operation
    shape = {"num_heads": 32.0, "num_kv_heads": 8.0, "head_dim": 128.0, "kv_cache_dtype": "bf16", "window": np.nan}
    for name, value in (shape | columns).items():
        frame[name] = value
    numbers = [name for name in frame if name not in {"operation", "kv_cache_dtype"}]
    return frame.astype(dict.fromkeys(numbers, float), errors="ignore")


def mixed() -> pd.DataFrame:
    """Return prefills of 512 tokens beside rows on deep contexts, where the kernel's choice shows."""
    contexts = [float(4000 * step) for step in range(1, 11)]
    return table("mixed_attention", new_tokens=512.0, past_tokens=1000.0, decode_rows=8.0, decode_past_tokens=contexts)


def shared() -> pd.DataFrame:
    """Return rows of which 90 % of the context is common, small enough for the L2."""
    pasts = [float(1000 * step) for step in range(1, 11)]
    return table("decode_attention", sequences=16.0, past_tokens=pasts, shared_tokens=[0.9 * past for past in pasts])


@pytest.mark.parametrize("tile", [ON_THEIR_OWN, 64, 128])
def test_the_tile_that_made_the_rows_is_found(tile: int) -> None:
    """With a tenth of noise on every row."""
    rows = mixed()
    noise = np.random.default_rng(0).normal(0, 0.1, len(rows))
    rows["time_s"] = mixed_s(PROFILE, "bf16", rows, tile) * np.exp(noise)
    found, readings = with_kernels(PROFILE, GPU, rows)
    assert found.decode_rows_beside_prefill == ("in_its_tiles" if tile else "on_their_own")
    assert found.prefill_tile_rows == (tile or 1)
    assert min(readings["mixed attention"].values()) < 0.15


@pytest.mark.parametrize("once", [False, True])
def test_whether_a_shared_prefix_is_read_once_is_found(once: bool) -> None:  # noqa: FBT001 - pytest fills it
    """By which of the two its rows are closer to."""
    rows = shared()
    noise = np.random.default_rng(0).normal(0, 0.1, len(rows))
    rows["time_s"] = shared_s(PROFILE, "bf16", rows, GPU, once=once) * np.exp(noise)
    found, _ = with_kernels(PROFILE, GPU, rows)
    assert found.shared_prefix_reads == ("once_if_l2_holds_it" if once else "per_sequence")


def test_a_table_without_such_rows_changes_nothing() -> None:
    """Nor does one with too few of them."""
    rows = mixed().head(3)
    rows["time_s"] = 1e-3
    assert with_kernels(PROFILE, GPU, rows) == (PROFILE, {})


def test_packed_tiles_are_told_by_their_rows_not_by_what_they_cost() -> None:
    """A tile of 128 rows that holds all four query heads of a KV head costs as much as one of 32 that does not."""
    packs = msgspec.structs.replace(PROFILE, prefill_packs_query_heads=True)
    assert mixed_s(packs, "bf16", mixed(), 256) == pytest.approx(mixed_s(PROFILE, "bf16", mixed(), 64))


def test_each_kv_type_is_judged_by_its_own_terms() -> None:
    """Slow rows of another type do not decide how the plain ones read a prefix."""
    slow = shared().assign(kv_cache_dtype="fp8")
    profile = with_values(PROFILE, {"attention.fp8.decode_bytes_per_s": 1e9})
    rows = pd.concat([shared(), slow], ignore_index=True)
    rows["time_s"] = np.concatenate(
        [shared_s(profile, "bf16", shared(), GPU, once=True), shared_s(profile, "fp8", slow, GPU, once=True)]
    )
    found, readings = with_kernels(profile, GPU, rows)
    assert found.shared_prefix_reads == "once_if_l2_holds_it"
    assert readings["shared prefix"]["read once"] == pytest.approx(0.0)
