"""yinli-systems/single-gpu-inference-lab: whole vLLM steps by CUDA events, milliseconds, medians per bin.

How each `table` of the file is read (depth is the context a prefill has at the start of the step):

prefill_partition            `prefill_requests` prompts of 16,384 tokens advance together, an equal chunk a step
                             each, beside 8 decode rows. A row is the median of the steps whose KV at the start
                             (n x depth + decode context) lies in a bin. Depths are multiples of the chunk, so
                             past_tokens is the median of those that fall in the bin. Check: the published line of
                             Qwen3-8B on A100, 2,048 tokens, puts the four bins at depths 1,005, 5,064, 9,107 and
                             13,301; the rule says 1,024, 5,120, 9,216 and 13,312.
prefill_chunk_at_depth       one chunk at the stated depth, and one or two decode rows.
prefill_chunk_over_request   the median of all steps of prompts prefilled one after the other: the median depth.
mixed_step_with_deep_decoder one chunk, 8 decode rows, one of them with 32,768 tokens in half the rows.
decode_only                  decode rows alone, from the sum of their contexts.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from calibrate.importers.layout import Layout, Origin, read_with, rows
from calibrate.importers.shapes import shapes
from calibrate.table_io import Table

_PROMPT_TOKENS = 16_384  # published step counts: 48 steps of 1,024 tokens are three repeats of this
_SHORT_DECODE_TOKENS = 128  # prompts of the decode rows; they grow while the step is measured
_DEEP_DECODE_TOKENS = 32_768
_TWO_ROWS_OF_SINGLE_STEPS_TOKENS = 190  # the decode-only step of the same two rows holds 379 to 380


def _steps(frame: pd.DataFrame, origin: Origin) -> pd.DataFrame:
    models = origin.models(frame, "model")
    shape = shapes(models, pd.Series(1.0, index=frame.index))
    prefilling = np.where(frame["table"] == "decode_only", 0.0, frame["prefill_requests"].fillna(1.0))
    decode_past, decode_note = _decode_context(frame)
    past = _prefill_context(frame, prefilling, decode_past)
    return rows(
        frame,
        operation="step",
        part=frame["table"],
        label="measured",
        gpu=origin.gpus(frame, "gpu"),
        model=models,
        tensor_parallel=1,
        weight_dtype="bf16",
        kv_cache_dtype="bf16",
        graph=np.where(frame["graph_mode"].str.contains("CUDA graph"), "cuda_graph", "eager"),
        tokens=frame["prefill_tokens_in_step"] + frame["decode_rows"],
        sequences=prefilling,
        new_tokens=frame["tokens_per_prefill_request"],
        past_tokens=past["mid"],
        past_tokens_low=past["low"],
        past_tokens_high=past["high"],
        decode_rows=frame["decode_rows"],
        decode_past_tokens=decode_past,
        num_heads=shape["num_heads"],
        num_kv_heads=shape["num_kv_heads"],
        head_dim=shape["head_dim"],
        layers=shape["layers"],
        time_s=frame["step_time_p50_ms"] / 1e3,
        engine="vLLM " + frame["vllm_version"],
        source=f"yinli-systems/single-gpu-inference-lab {origin.path.name}",
        note=frame["notes"] + decode_note + _tail_note(frame),
    )


def _decode_context(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the mean context of the decode rows, and what must be said about it."""
    table, notes, count = frame["table"], frame["notes"], frame["decode_rows"]
    summed = (frame["aggregate_kv_from_tokens"] + frame["aggregate_kv_to_tokens"]) / 2
    deep = notes.str.contains("32k-context decoder")
    single = notes.str.contains("two decode rows")
    told = (table == "decode_only") & summed.notna()
    context = pd.Series(float(_SHORT_DECODE_TOKENS), index=frame.index)
    context = context.mask(told, summed / count)
    context = context.mask(deep, (_DEEP_DECODE_TOKENS + (count - 1) * _SHORT_DECODE_TOKENS) / count)
    context = context.mask(single, float(_TWO_ROWS_OF_SINGLE_STEPS_TOKENS))
    stated = told | single | deep | notes.str.contains("128-token")
    return context, pd.Series(np.where(stated, "", "; decode context not stated, 128 assumed"), index=frame.index)


def _prefill_context(frame: pd.DataFrame, prefilling: np.ndarray, decode_past: pd.Series) -> pd.DataFrame:
    """Return the depth of each prefilling request at the start of the step: mid, low, high."""
    table, chunk = frame["table"], frame["tokens_per_prefill_request"]
    low_bin, high_bin = frame["aggregate_kv_from_tokens"], frame["aggregate_kv_to_tokens"]
    decoding = frame["decode_rows"] * decode_past
    requests = np.maximum(prefilling, 1.0)
    binned, whole = table == "prefill_partition", table == "prefill_chunk_over_request"
    last = _PROMPT_TOKENS - chunk
    first_bin = ((low_bin - decoding) / requests).clip(lower=0)
    end_bin = ((high_bin - decoding) / requests).clip(lower=0)
    lowest = np.ceil(first_bin / chunk) * chunk
    highest = np.minimum((np.ceil(end_bin / chunk) - 1) * chunk, last)
    nothing = lowest > highest  # a chunk larger than the bin may leave no depth in it
    lowest, highest = lowest.mask(nothing, first_bin), highest.mask(nothing, end_bin)
    stated = frame["prefill_depth_tokens"].where(table != "decode_only")
    low = stated.mask(binned, lowest).mask(whole, 0.0)
    high = stated.mask(binned, highest).mask(whole, high_bin - chunk)
    return pd.DataFrame({"mid": (low + high) / 2, "low": low, "high": high})


def _tail_note(frame: pd.DataFrame) -> pd.Series:
    p95 = frame["step_time_p95_ms"]
    return ("; p95 over steps " + p95.astype(str) + " ms").where(p95.notna(), "")


LAYOUTS = (
    Layout(
        "vllm_steps",
        "vLLM step times",
        _steps,
        ("decode_rows", "tokens_per_prefill_request", "prefill_tokens_in_step", "step_time_p50_ms"),
        ("table", "gpu", "model", "vllm_version", "graph_mode", "notes"),
        (
            "prefill_requests",
            "prefill_depth_tokens",
            "aggregate_kv_from_tokens",
            "aggregate_kv_to_tokens",
            "step_time_p95_ms",
        ),
    ),
)


def read(path: str | Path, **told: str | int | None) -> Table:
    """Read a file of this publisher. Raises MeasurementError."""
    return read_with(LAYOUTS, path, **told)
