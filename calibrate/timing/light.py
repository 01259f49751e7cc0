"""The speed of light of a catalogued GPU: no timing may beat its peaks."""

from calibrate.timing.work import Work
from sim.catalog import Gpu

_CLOCK_MARGIN = 0.95  # boost clocks may lie a little above those of the data sheet


def light_s(work: Work, gpu: Gpu, weight_dtype: str) -> float:
    """Return the shortest time the work can take: FLOPs or bytes at the data-sheet peak."""
    peak = gpu.fp8_flops if weight_dtype == "fp8" and gpu.fp8_flops else gpu.bf16_flops
    return max(work.flops / peak, work.read_bytes / gpu.bandwidth_bytes_per_s)


def faster_than_light(time_s: float, work: Work, gpu: Gpu, weight_dtype: str) -> str | None:
    """Return what is wrong with a timing that no such GPU can reach, else None."""
    bound_s = light_s(work, gpu, weight_dtype) * _CLOCK_MARGIN
    if time_s >= bound_s:
        return None
    return f"{time_s * 1e6:.3g} us is faster than light: {gpu.name} cannot need less than {bound_s * 1e6:.3g} us"
