"""What the prompts of a load point have in common: what was measured of it, else the scenario's shared prefix.

Without either nothing is shared, as in vLLM's random data set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from calibrate.compare.lengths import Lengths, counted
from calibrate.measured.run import MeasuredRun
from workloads.span import Span, joined

PREFIX = "shared prefix"


@dataclass(frozen=True, slots=True)
class Sharing:
    """Tokens at the front of each prompt that it has in common with all others, and where that is from."""

    tokens: Sequence[int]
    note: str

    @property
    def warm(self) -> tuple[Span, ...]:
        """What the cache holds before the first request: a server that has run for a while has it."""
        longest = max(self.tokens, default=0)
        return (Span(PREFIX, 0, longest),) if longest else ()

    def prompt(self, number: int, tokens: int) -> tuple[Span, ...]:
        """Return a prompt: the shared part, then a text nobody else sends."""
        shared = min(self.tokens[number], tokens)
        return joined([Span(PREFIX, 0, shared), Span(("own", number), 0, tokens - shared)])


def sharing_of(run: MeasuredRun, lengths: Lengths, prefix_tokens: int) -> Sharing:
    """Return what prompts of these lengths share; `prefix_tokens` is the scenario's prefix."""
    prompts = lengths.prompt_tokens
    listed = counted(run)
    hits = [request.hit_tokens for request in listed]
    if len(hits) == len(prompts) and all(hit is not None for hit in hits):
        known = [min(hit or 0, tokens) for hit, tokens in zip(hits, prompts, strict=True)]
        return Sharing(known, "prompts share as many tokens as were measured as prefix-cache hits")
    rate = run.metrics.get("prefix_hit_rate")
    if rate:
        shared = round(min(rate, 1.0) * sum(prompts) / len(prompts))
        return Sharing(
            [shared] * len(prompts), f"prompts share {shared:,} tokens: the measured prefix hits, {rate:.0%}"
        )
    if run.settings.get("dataset_name") == "random":
        return Sharing([0] * len(prompts), "prompts share nothing, as the random data set's do")
    if rate is None and 0 < prefix_tokens < min(prompts):
        return Sharing([prefix_tokens] * len(prompts), f"prompts share the scenario's prefix, {prefix_tokens:,} tokens")
    why = "no prefix hit was measured" if rate == 0 else "the result states no sharing"
    if rate is None and prefix_tokens:
        why += f", and the scenario's prefix of {prefix_tokens:,} tokens is longer than its shortest prompt"
    return Sharing([0] * len(prompts), f"prompts share nothing: {why}")
