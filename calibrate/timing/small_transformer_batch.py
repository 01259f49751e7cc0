"""What one step of the small transformer holds: prefill chunks and decode rows, in numbers only."""

from typing import NamedTuple

from sim.steptime.batch import BatchShape


class Chunk(NamedTuple):
    """Part of a prompt: tokens that are computed, and those computed before."""

    new_tokens: int
    past_tokens: int


class StepBatch(NamedTuple):
    """One step. A decode row is given by the tokens it finds in its cache; it adds one and attends to all of them."""

    chunks: tuple[Chunk, ...] = ()
    decode_pasts: tuple[int, ...] = ()

    @property
    def requests(self) -> tuple[Chunk, ...]:
        """Every request as a chunk, in the order of the batch: prefills first."""
        return (*self.chunks, *(Chunk(1, past) for past in self.decode_pasts))

    @property
    def tokens(self) -> int:
        """Rows of the batch."""
        return sum(request.new_tokens for request in self.requests)

    @property
    def kind(self) -> str:
        """Prefill, mixed or decode."""
        return ("mixed" if self.decode_pasts else "prefill") if self.chunks else "decode"

    @property
    def shape(self) -> BatchShape:
        """What a step-time model is told of it. Every request samples, as in vLLM, unfinished prompts too."""
        return BatchShape(
            tokens=self.tokens,
            sampled=len(self.requests),
            prefill_pairs=sum(
                chunk.new_tokens * (chunk.past_tokens + (chunk.new_tokens + 1) / 2) for chunk in self.chunks
            ),
            decode_rows=len(self.decode_pasts),
            decode_kv_tokens=sum(self.decode_pasts) + len(self.decode_pasts),
            holds_prefill=bool(self.chunks),
            prefill_kv_tokens=sum(chunk.past_tokens + chunk.new_tokens for chunk in self.chunks),
        )

    def blocks(self, block_size: int) -> list[int]:
        """Return how many KV blocks each request fills."""
        return [-(-(request.past_tokens + request.new_tokens) // block_size) for request in self.requests]

    def __str__(self) -> str:
        parts = [f"{chunk.new_tokens} new on {chunk.past_tokens}" for chunk in self.chunks]
        if self.decode_pasts:
            low, high = min(self.decode_pasts), max(self.decode_pasts)
            parts.append(f"{len(self.decode_pasts)} rows on {low if low == high else f'{low}..{high}'}")
        return " + ".join(parts)
