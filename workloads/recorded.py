"""Requests that are given rather than drawn: what was sent, when at the earliest, and how long the answer was."""

from collections.abc import Sequence
from typing import NamedTuple

from workloads.session import Prompt
from workloads.span import Span, total_tokens


class RecordedRequest(NamedTuple):
    """One request of a recorded or reconstructed run; `at_s` counts from the start of the run."""

    at_s: float
    prompt: Prompt

    @classmethod
    def of(cls, at_s: float, spans: Sequence[Span], output_tokens: int, name: str) -> "RecordedRequest":
        """Return a request whose answer nobody else's prompt holds."""
        answer = Span(f"answer {name}", 0, output_tokens)
        return cls(at_s, Prompt(tuple(spans), answer, over_from=total_tokens(spans)))


class RecordedTurn(NamedTuple):
    """One turn of a session that is given, and how long its client pauses before it sends it."""

    pause_s: float  # after the answer before it
    prompt: Prompt


class RecordedSession(NamedTuple):
    """Turns that one client sends one after another, each once the last is answered; the first at `at_s`."""

    at_s: float
    turns: tuple[RecordedTurn, ...]
