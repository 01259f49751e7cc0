"""What a policy wastes, added up over steps: rows that pad or idle, memory not filled, holes nobody fits."""

from dataclasses import dataclass


@dataclass(slots=True)
class Waste:
    """Sums over all steps. Shares are of what was computed, reserved, or there at all."""

    computed_rows: int = 0  # of the batches, padding included
    padding_rows: int = 0
    idle_steps: int = 0  # of rows in a static batch after their own last token
    early_steps: int = 0  # all steps of those that were done before the batch's longest
    reserved_tokens: int = 0  # summed over steps, as all below
    filled_tokens: int = 0
    unusable_tokens: int = 0  # free, and more than the next in line needs, but in no hole large enough
    total_tokens: int = 0

    @property
    def padding_share(self) -> float:
        """Of all rows computed, those that stood for nothing."""
        return self.padding_rows / self.computed_rows if self.computed_rows else 0.0

    @property
    def idle_share(self) -> float:
        """Of the steps of rows that were done before their static batch was, those after their last token."""
        return self.idle_steps / self.early_steps if self.early_steps else 0.0

    @property
    def internal_fragmentation(self) -> float:
        """Of the memory reserved, what held no token, averaged over steps."""
        return 1.0 - self.filled_tokens / self.reserved_tokens if self.reserved_tokens else 0.0

    @property
    def external_fragmentation(self) -> float:
        """Of all KV memory, what was free and of no use to a request that waited for less, averaged over steps."""
        return self.unusable_tokens / self.total_tokens if self.total_tokens else 0.0

    @property
    def filled_share(self) -> float:
        """Of all KV memory, what held tokens, averaged over steps."""
        return self.filled_tokens / self.total_tokens if self.total_tokens else 0.0
