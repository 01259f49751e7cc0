"""A client that is answered 503 waits and sends the same again: exponential backoff with jitter, so many tries.

The pause before try k + 1 is `backoff_s` x `factor` ^ (k - 1), at most `most_s`, and up to the share `jitter` of it
shorter, by the seed. Time to first token counts from the first send.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Retry:
    """`tries` counts the first send; 1 gives up at the first 503."""

    tries: int = 1
    backoff_s: float = 1.0
    factor: float = 2.0
    most_s: float = 60.0
    jitter: float = 0.5

    def pause_s(self, tries: int, rng: np.random.Generator) -> float:
        """Return how long to wait after so many tries."""
        try:
            pause_s = self.backoff_s * self.factor ** (tries - 1)
        except OverflowError:
            pause_s = self.most_s
        return min(pause_s, self.most_s) * (1.0 - self.jitter * rng.random())
