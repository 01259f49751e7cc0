"""What a policy wastes, added up over steps: rows that pad a batch, memory not filled, holes nobody fits."""

from dataclasses import dataclass


@dataclass(slots=True)
class Waste:
    """Sums over all steps. Shares are of what was computed, reserved, or there at all."""

    computed_rows: int = 0  # of the batches, padding included
    padding_rows: int = 0
    reserved_tokens: int = 0  # summed over steps, as all below
    filled_tokens: int = 0
    unusable_tokens: int = 0  # free, and more than the next in line needs, but in no hole large enough
    total_tokens: int = 0

    @property
    def padding_share(self) -> float:
        """Of all rows computed, those that stood for nothing."""
        return self.padding_rows / self.computed_rows if self.computed_rows else 0.0

    @property
    def internal_fragmentation(self) -> float:
        """Of the memory reserved, what held no token, averaged over steps."""
        return 1.0 - self.filled_tokens / self.reserved_tokens if self.reserved_tokens else 0.0

    @property
    def external_fragmentation(self) -> float:
        """Of all KV memory, what was free and of no use to a request that waited for less, averaged over steps."""
        return self.unusable_tokens / self.total_tokens if self.total_tokens else 0.0
