"""Steps that last longer for what their requests ask for: penalties, grammars, hashing; or for the host."""

from sim.steptime.ahead import StepPrices, Stretch, ends_one_by_one
from sim.steptime.batch import BatchShape


class CostedSteps:
    """Other prices, with terms on top."""

    def __init__(  # noqa: PLR0917 - compiled
        self,
        prices: StepPrices,
        host_step_s: float,
        host_sequence_s: float,
        penalty_token_s: float,
        structured_step_s: float,
        structured_sequence_s: float,
        hashing_token_s: float,
    ) -> None:
        self._prices = prices
        self._host_step_s = host_step_s  # at least that long, for it overlaps with the GPU
        self._host_sequence_s = host_sequence_s
        self._penalty_token_s = penalty_token_s
        self._structured_step_s = structured_step_s
        self._structured_sequence_s = structured_sequence_s
        self._hashing_token_s = hashing_token_s

    @property
    def shared_tokens_read_once(self) -> float:
        """As in the prices below."""
        return self._prices.shared_tokens_read_once

    def seconds(self, batch: BatchShape) -> float:
        """Return how long a step takes."""
        total = max(self._prices.seconds(batch), self._host_s(batch.sampled))
        if batch.scanned_tokens:
            total += batch.scanned_tokens * self._penalty_token_s
        if batch.structured_rows:
            total += self._structured_step_s + batch.structured_rows * self._structured_sequence_s
        if batch.hashed_tokens:
            total += batch.hashed_tokens * self._hashing_token_s
        return total

    def ends_s(self, stretch: Stretch) -> list[float]:
        """Return when each step of a stretch ends; steps only grow along it, so the host binds the first if any."""
        plain = not (stretch.penalised_rows or stretch.structured_rows)
        if plain and self._prices.seconds(stretch.shape(0)) >= self._host_s(stretch.rows):
            return self._prices.ends_s(stretch)
        return ends_one_by_one(self.seconds, stretch)

    def _host_s(self, sequences: int) -> float:
        return self._host_step_s + sequences * self._host_sequence_s
