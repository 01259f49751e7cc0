"""What memory pressure cost over a run, beside the preemptions and re-prefilled tokens that each turn counts."""

from dataclasses import dataclass


@dataclass(slots=True)
class Pressure:
    """Totals of one engine, over all its sessions."""

    swapped_blocks: int = 0  # moved to host memory
    swap_s: float = 0.0  # that steps took longer for moves in either direction
    recomputed: int = 0  # preemptions that found no room in host memory
    shed: int = 0  # requests dropped because others mattered more
    rejections: int = 0  # answers 503, each try for itself
    retries: int = 0  # of those, how many were sent again
    crashes: int = 0  # processes that died of memory
    lost: int = 0  # requests that died with them
