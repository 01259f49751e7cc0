"""What the engine asks of whatever prices its steps: one step, or a stretch of steps in which the same rows decode."""

from collections.abc import Callable
from typing import Protocol

from sim.steptime.batch import BatchShape


class Stretch:
    """Successive steps of the same decode rows, each reading `rows` more KV tokens than the one before.

    It ends with the first step that ends at `until_s` or later, and `more_steps` after that one, or after `most_steps`.
    """

    __slots__ = (
        "kv_tokens",
        "kv_tokens_shared",
        "more_steps",
        "most_steps",
        "penalised_rows",
        "rows",
        "scanned_tokens",
        "start_s",
        "structured_rows",
        "until_s",
    )

    def __init__(  # noqa: PLR0917 - compiled, and made all the time
        self,
        rows: int,
        kv_tokens: int,  # the first step's
        kv_tokens_shared: float,
        start_s: float,
        until_s: float,
        most_steps: int,
        more_steps: int = 0,
    ) -> None:
        self.rows = rows
        self.kv_tokens = kv_tokens
        self.kv_tokens_shared = kv_tokens_shared
        self.start_s = start_s
        self.until_s = until_s
        self.most_steps = most_steps
        self.more_steps = more_steps
        self.scanned_tokens = (
            0  # output that the first step's penalties look through; each of these rows adds one a step
        )
        self.penalised_rows = 0
        self.structured_rows = 0

    def shape(self, step: int) -> BatchShape:
        """Return step `step` of it, from 0."""
        kv_tokens = self.kv_tokens + step * self.rows
        return BatchShape(
            self.rows,
            self.rows,
            0.0,
            self.rows,
            kv_tokens,
            self.kv_tokens_shared,
            False,
            0.0,
            self.scanned_tokens + step * self.penalised_rows,
            self.structured_rows,
        )


class StepPrices(Protocol):
    """Seconds of steps, from the sums of their batches."""

    @property
    def shared_tokens_read_once(self) -> float:
        """The longest shared prefix whose KV is read once for all rows, in tokens; 0 = none."""
        ...

    def seconds(self, batch: BatchShape) -> float:
        """Return how long a step takes."""
        ...

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends: what `seconds` of one after another adds up to."""
        ...


def ends_one_by_one(seconds: Callable[[BatchShape], float], stretch: Stretch) -> list[float]:
    """Return when each step of a stretch ends, each priced as any other batch."""
    ends: list[float] = []
    end_s, beyond = stretch.start_s, 0
    for step in range(stretch.most_steps):
        end_s += seconds(stretch.shape(step))
        ends.append(end_s)
        if end_s >= stretch.until_s:
            beyond += 1
            if beyond > stretch.more_steps:
                break
    return ends


class SpedUp:
    """Prices of a device on which everything takes `factor` times less."""

    def __init__(self, prices: StepPrices, factor: float) -> None:
        self._prices = prices
        self._factor = factor

    @property
    def shared_tokens_read_once(self) -> float:
        """As on the slower device."""
        return self._prices.shared_tokens_read_once

    def seconds(self, batch: BatchShape) -> float:
        """Return how long a step takes."""
        return self._prices.seconds(batch) / self._factor

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends."""
        return ends_one_by_one(self.seconds, stretch)
