"""Refused turns in words: how many of how many, and what they were too long for."""

from sim.engine.record import Outcome
from sim.results.metrics import NOT_ANSWERED
from sim.results.points import Row, number
from sim.run import Result, turn_rows

SENT = ("requests", "unfinished", "refused", *NOT_ANSWERED)  # what a turn that was sent can become


def turns_word(result: Result, count: float) -> str:
    """Return what a turn is called in this load: a request in a trace, which knows no sessions."""
    word = "request" if result.deployment.trace is not None else "turn"
    return word if count == 1 else f"{word}s"


def refused(point: Row) -> int:
    """Return how many turns were refused at one load, a seed."""
    return int(number(point, "refused"))


def share_refused(result: Result, *points: Row) -> str:
    """Return `1 of 2 requests refused` over some loads of a result, or over all if none are named; empty for none."""
    counted = points or tuple(result.points)
    count = sum(refused(point) for point in counted)
    if not count:
        return ""
    sent = int(sum(point.get(name, 0) for point in counted for name in SENT))
    return f"{count:,} of {sent:,} {turns_word(result, sent)} refused"


def why_refused(result: Result) -> str:
    """Return what turns were too long for, and the longest prompt where single turns are known."""
    ledger = result.deployment.ledger
    lengths = [row["prompt_tokens"] for row in turn_rows(result) if row["outcome"] == Outcome.REFUSED.value]
    longest = f"prompts of up to {max(lengths):,} tokens, where " if lengths else ""
    return (
        f"too long: {longest}max_model_len is {ledger.limits.max_model_len:,} and the KV cache has "
        f"{ledger.kv_cache_tokens:,} tokens"
    )
