"""Between what a term must lie on a GPU, whatever measurements say: no rate beyond the peak, no clock above full."""

import math

from sim.catalog import Gpu
from sim.steptime.device import peak_flops

SHARPEST = 20.0
CACHE_SPEEDUP = 3.0  # small kernels find much of what they read in the L2


def limits_of(name: str, gpu: Gpu) -> tuple[float, float]:  # noqa: PLR0911 - one a kind of term
    """Return the lowest and highest value the term of that dotted name can have."""
    field = name.rsplit(".", maxsplit=1)[-1]
    match field:
        case "sharpness":
            return 1.0, SHARPEST
        case "flops_slowdown":
            return 1.0, math.inf
        case "elementwise_bytes_per_s":
            return 0.0, CACHE_SPEEDUP * gpu.bandwidth_bytes_per_s
        case "bytes_per_s" if name.startswith("small."):
            return 0.0, CACHE_SPEEDUP * gpu.bandwidth_bytes_per_s
        case "bytes_per_s" | "decode_bytes_per_s" if not name.startswith("links."):
            return 0.0, gpu.bandwidth_bytes_per_s
        case "flops_per_s" | "prefill_flops_per_s":
            return 0.0, peak_flops(name, gpu)
    return 0.0, math.inf
