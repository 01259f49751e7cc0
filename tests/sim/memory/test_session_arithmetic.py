import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import MemoryLedgerError
from sim.memory import SessionArithmetic, sessions_that_fit


@pytest.mark.parametrize(
    ("kv_cache_tokens", "published", "fit"), [(178_000, 13, 13), (89_000, 6, 6), (275_000, 21, 20)]
)
def test_the_founding_documents_numbers(kv_cache_tokens: int, published: int, fit: int) -> None:
    """A 10K prefix and 12.8K a session on one L4. The document rounds 20.7 up to 21; 20 whole ones fit."""
    arithmetic = SessionArithmetic(kv_cache_tokens, 10_000, 12_800)
    assert arithmetic.sessions_nearest == published
    assert arithmetic.sessions == fit


def test_a_prefix_larger_than_the_cache_leaves_no_session() -> None:
    """Never a negative count."""
    arithmetic = SessionArithmetic(8_000, 10_000, 12_800)
    assert (arithmetic.tokens_for_sessions, arithmetic.sessions) == (0, 0)


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(1, 10**5))
def test_the_sessions_fit_and_one_more_does_not(tokens: int, prefix: int, unique: int) -> None:
    """The definition of the floor."""
    sessions = sessions_that_fit(tokens, prefix, unique)
    assert sessions == 0 or prefix + sessions * unique <= tokens
    assert prefix + (sessions + 1) * unique > tokens


@pytest.mark.parametrize("bad", [(-1, 0, 1), (1, -1, 1), (1, 0, 0), (1.5, 0, 1), (float("nan"), 0, 1)])
def test_counts_that_cannot_be_are_errors(bad: tuple[int, int, int]) -> None:
    """Negative, fractional and NaN tokens, and sessions without any."""
    with pytest.raises(MemoryLedgerError, match="whole number"):
        sessions_that_fit(*bad)
