"""How many sessions fit, by division: the estimate to make before any simulation.

A prefix that all sessions share is stored once; each session adds its own tokens. It counts tokens at their
deepest and knows nothing of blocks, eviction or arrival order, so an observed knee lies near it, not at it.
"""

from dataclasses import dataclass

from sim.errors import MemoryLedgerError


@dataclass(frozen=True, slots=True)
class SessionArithmetic:
    """The division and its result."""

    kv_cache_tokens: int
    shared_prefix_tokens: int
    unique_tokens_per_session: int

    def __post_init__(self) -> None:
        for name, least in (
            ("kv_cache_tokens", 0),
            ("shared_prefix_tokens", 0),
            ("unique_tokens_per_session", 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise MemoryLedgerError(f"{name} {value!r} must be a whole number of {least} or more")

    @property
    def tokens_for_sessions(self) -> int:
        """Tokens left once the shared prefix is stored."""
        return max(0, self.kv_cache_tokens - self.shared_prefix_tokens)

    @property
    def sessions(self) -> int:
        """Sessions whose own tokens fit beside the shared prefix, rounded down."""
        return self.tokens_for_sessions // self.unique_tokens_per_session

    @property
    def sessions_nearest(self) -> int:
        """The same rounded to the nearest, as founding document 000 does: its 21 at 275K tokens is 20.7."""
        return round(self.tokens_for_sessions / self.unique_tokens_per_session)


def sessions_that_fit(kv_cache_tokens: int, shared_prefix_tokens: int, unique_tokens_per_session: int) -> int:
    """Return floor((KV tokens - shared prefix) / own tokens of a session); never below 0.

    With the 10K prefix and 12.8K a session of founding document 000: 178K tokens hold 13, 89K hold 6, and
    275K hold 20, which the document rounds to 21. Raises MemoryLedgerError for a negative count or a session
    without tokens.
    """
    return SessionArithmetic(kv_cache_tokens, shared_prefix_tokens, unique_tokens_per_session).sessions
