"""Turns and sessions: each prompt extends the last one, so the engine's prefix cache has something to hit.

    turn 1   | shared prefix | new 1 |                         -> output 1
    turn 2   | shared prefix | new 1 (| output 1) | new 2 |    -> output 2

Whether an output comes back in the next prompt is the session's `keeps_output`: agents that feed back their own
answers do, harnesses that replay a fixed text do not. A turn may also keep only the front of what came before: an
agent that compacts its context, or drops the thinking of its last answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from workloads.errors import WorkloadError
from workloads.span import Span, front, joined, total_tokens


@dataclass(frozen=True, slots=True)
class Turn:
    """What a client adds in one turn, how much comes back, and how long it then thinks.

    `kept_tokens` of the session's own tokens so far, from the front, stay before what is new; None: all.
    """

    new_tokens: int
    output_tokens: int
    think_s: float = 0.0
    kept_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.new_tokens < 1 or self.output_tokens < 1:
            raise WorkloadError(f"a turn needs new and output tokens, got {self.new_tokens} and {self.output_tokens}")
        if not 0 <= self.think_s < float("inf"):
            raise WorkloadError(f"think_s {self.think_s} must be a finite number of at least 0")
        if self.kept_tokens is not None and self.kept_tokens < 0:
            raise WorkloadError(f"kept_tokens {self.kept_tokens} must be at least 0")


class Prompt(NamedTuple):
    """One turn as the engine sees it: the prompt, and the content its output will have.

    Where it is known that no later prompt holds the tokens from one on (those of the output come after the prompt's),
    `over_from` is the first of them.
    """

    spans: tuple[Span, ...]
    output: Span
    over_from: int | None = None


class PromptLength(NamedTuple):
    """How long a prompt is, and how much of its front the session's earlier prompts and answers, or others', hold."""

    held_tokens: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation: a prefix others may share, then turns on lines of content of its own, named after it."""

    name: str
    prefix: tuple[Span, ...]
    turns: tuple[Turn, ...]
    keeps_output: bool = True
    resumed: bool = False  # its first prompt was once somebody's last

    def __post_init__(self) -> None:
        if not self.turns:
            raise WorkloadError(f"session {self.name!r} has no turns")

    def prompts(self) -> Iterator[Prompt]:
        """Yield the prompt of every turn in order."""
        context = self.prefix
        shared = total_tokens(self.prefix)
        point = 0
        for index, turn in enumerate(self.turns):
            if turn.kept_tokens is not None:
                context = front(context, shared + turn.kept_tokens)
            context = joined([*context, Span(self.name, point, turn.new_tokens)])
            point += turn.new_tokens
            line = self.name if self.keeps_output else f"{self.name} answer {index}"
            output = Span(line, point, turn.output_tokens)
            yield Prompt(context, output, self._over_from(index, context))
            if self.keeps_output:
                context = joined([*context, output])
                point += turn.output_tokens

    def lengths(self) -> Iterator[PromptLength]:
        """Yield the length of every turn's prompt in order; cheaper than the prompts."""
        held = shared = total_tokens(self.prefix)
        for turn in self.turns:
            if turn.kept_tokens is not None:
                held = min(held, shared + turn.kept_tokens)
            tokens = held + turn.new_tokens
            yield PromptLength(held, tokens)
            held = tokens + (turn.output_tokens if self.keeps_output else 0)

    def _over_from(self, index: int, context: tuple[Span, ...]) -> int | None:
        """Return the first token that no prompt after this turn's holds."""
        if index == len(self.turns) - 1:
            return total_tokens(self.prefix)
        held = None if self.keeps_output else total_tokens(context)
        kept = self.turns[index + 1].kept_tokens
        if kept is None:
            return held
        kept += total_tokens(self.prefix)
        return kept if held is None else min(kept, held)
