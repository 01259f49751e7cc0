"""A device the catalog does not know, as its own measurements show it: its best copy and its best product."""

import numpy as np
import pandas as pd

from calibrate.fitting.robust import Vector
from sim.catalog import LINEAR_WEIGHT_BYTES, gpu_names, linear_weight_bytes
from sim.errors import MeasurementError, did_you_mean
from sim.steptime.device import Hardware, weight_family

HEADROOM = 1.1  # a rate some kernel reached is not the peak
MEMORY_BYTES_WHERE_UNKNOWN = 16 << 30
CACHE_COMMENT, MEMORY_COMMENT = "last_level_cache_bytes:", "memory_bytes:"


def measured_hardware(table: pd.DataFrame, comments: tuple[str, ...]) -> Hardware:
    """Return what the rows of one device reached; raises MeasurementError without a copy row and a gemm row."""
    name = str(table["gpu"].iloc[0])
    rates = {}
    for operation, per_s in (("copy", _copied), ("gemm", _multiplied)):
        rows = table[(table["operation"] == operation) & (table["label"] == "measured")]
        if not len(rows):
            near = did_you_mean(name, gpu_names())
            raise MeasurementError(
                f"gpu {name!r} is not in the catalog{near}, and no {operation} row says what it can do"
            )
        rates[operation] = float(np.max(per_s(rows) / rows["time_s"].to_numpy(float))) * HEADROOM
    read = [_weights_read(table), rates["copy"]]
    return Hardware(
        memory_bytes=_number(comments, MEMORY_COMMENT) or MEMORY_BYTES_WHERE_UNKNOWN,
        bandwidth_bytes_per_s=max(read),
        flops_per_s=rates["gemm"],
        l2_bytes=_number(comments, CACHE_COMMENT),
        source="its own copy and gemm rows, and a tenth on top",
    )


def _copied(rows: pd.DataFrame) -> Vector:
    return np.asarray(rows["bytes"], float)


def _multiplied(rows: pd.DataFrame) -> Vector:
    return np.asarray(2.0 * rows["tokens"] * rows["out_features"] * rows["in_features"], float)


def _weights_read(table: pd.DataFrame) -> float:
    """Return the best rate at which a product with one row read its weights: a copy also writes, and is slower."""
    rows = table[(table["operation"].isin(["gemm", "head"])) & (table["label"] == "measured")]
    rows = rows[rows["weight_dtype"].map(weight_family).isin(LINEAR_WEIGHT_BYTES)]
    each = rows["weight_dtype"].map(weight_family).map(linear_weight_bytes)
    rates = each * rows["out_features"] * rows["in_features"] / rows["time_s"]
    return float(rates.max()) * HEADROOM if len(rates) else 0.0


def _number(comments: tuple[str, ...], key: str) -> int | None:
    for line in comments:
        if line.strip().startswith(key):
            return int(line.split(":", 1)[1])
    return None
