"""Every step of an engine in a few columns: when it ended, and how full the KV cache was.

All tokens come at the end of a step, so these columns hold every token's time: a record only says which steps.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class StepLog:
    """Columns by step, from step 1 (index 0) on; seconds of the engine's clock."""

    ends_s: "array[float]" = field(default_factory=lambda: array("d"))
    blocks_in_use: "array[int]" = field(default_factory=lambda: array("l"))
    late_steps: "array[int]" = field(default_factory=lambda: array("l"))  # index of each step after a pause,
    late_starts_s: "array[float]" = field(default_factory=lambda: array("d"))  # and when it started

    def add(self, start_s: float, end_s: float, blocks_in_use: int) -> None:
        """Note a step."""
        self._note_start(start_s)
        self.ends_s.append(end_s)
        self.blocks_in_use.append(blocks_in_use)

    def add_stretch(self, start_s: float, ends_s: list[float], blocks_in_use: list[int]) -> None:
        """Note steps that follow each other."""
        self._note_start(start_s)
        self.ends_s.extend(ends_s)
        self.blocks_in_use.extend(blocks_in_use)

    def ends(self) -> NDArray[np.float64]:
        """Return when each step ended, without a copy: let go of it before the next step."""
        return np.asarray(self.ends_s)

    def blocks(self) -> NDArray[np.int64]:
        """Return the blocks in use at each step, without a copy too."""
        return np.asarray(self.blocks_in_use)

    def seconds(self) -> NDArray[np.float64]:
        """Return how long each step took."""
        ends = self.ends()
        starts: NDArray[np.float64] = np.empty_like(ends)
        starts[:1], starts[1:] = 0.0, ends[:-1]
        late = np.searchsorted(self.late_steps, len(ends))
        starts[self.late_steps[:late]] = self.late_starts_s[:late]
        return np.subtract(ends, starts, out=starts)

    def _note_start(self, start_s: float) -> None:
        if not self.ends_s or self.ends_s[-1] != start_s:
            self.late_steps.append(len(self.ends_s))
            self.late_starts_s.append(start_s)
