"""Units and how to print them. Time is seconds, size is bytes, everywhere."""

import math

GIB = 2**30
GB = 10**9
TERA = 10**12


def seconds(value_s: float) -> str:
    """Format a duration for people: `57 ms`, `1.06 s`, `38.9 s`, `102 s`."""
    if math.isnan(value_s):  # nothing was measured
        return "-"
    if value_s < 0.9995:
        return f"{value_s * 1e3:.3g} ms"
    return f"{value_s:.3g} s"


def gib(value_bytes: float) -> str:
    """Format a size for people: `13.02 GiB`."""
    return f"{value_bytes / GIB:.2f} GiB"
