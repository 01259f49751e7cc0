"""What a point turns into: something to call, and how far it stands for the kernel an engine would run."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from calibrate.timing.layer_shape import LayerShape
from calibrate.timing.machine import Machine

_CACHE_MULTIPLE = {"cpu": 2, "cuda": 4}  # caches of GPUs keep part of a set they cannot hold
_MOST_COPIES = 4096


class Unsupported(Exception):  # noqa: N818 - a finding, not a fault
    """This chip, or this torch, cannot run a point. The message says why."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What every case is built from."""

    machine: Machine
    shape: LayerShape
    dtype_name: str
    dtype: torch.dtype
    block_size: int

    def copies(self, tensor_bytes: float, most_bytes: float) -> int:
        """Return how many copies of the inputs must take turns so that none is still in the cache when it comes back.

        As many as `most_bytes` hold, at least one.
        """
        each = max(tensor_bytes, 1.0)
        wanted = ceil(_CACHE_MULTIPLE[self.machine.kind] * self.machine.cache_bytes / each)
        return max(1, min(wanted, _MOST_COPIES, int(most_bytes / each)))

    def stays_in_cache(self, tensor_bytes: float, copies: int) -> bool:
        """Return whether so many copies are too few to push each other out of the cache."""
        return copies * tensor_bytes < 2 * self.machine.cache_bytes


@dataclass(frozen=True, slots=True)
class Case:
    """A point, ready to run. `call(i)` runs it on copy i of its inputs and returns what it computed, if anything."""

    call: Callable[[int], Tensor | None]
    copies: int = 1
    label: str = "measured"
    note: str = ""
    sample: Callable[[], float] | None = None  # times itself: seconds of one call
    memory: Callable[[], int] | None = None  # measures bytes instead of seconds
    graph: str | None = None  # how it is launched, where it times itself
