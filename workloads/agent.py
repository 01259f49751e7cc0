"""The agent session of the founding document: a large prefix that all share, then turns that only grow.

One shape, three numbers: with turns = 1 it is also single-turn QA, a code reviewer, and both of the document's
bounds (best: the prefix holds nearly everything; worst: everything but the system prompt is new each time).
"""

from dataclasses import dataclass

import numpy as np

from workloads.distributions import Constant, Distribution, whole
from workloads.errors import WorkloadError
from workloads.session import Session, Turn
from workloads.span import Span


@dataclass(frozen=True, slots=True)
class AgentWorkload:
    """How sessions are drawn. All sessions share the first `shared_prefix_tokens` tokens."""

    shared_prefix_tokens: int
    turns: Distribution
    new_tokens: Distribution
    output_tokens: Distribution
    think_s: Distribution = Constant(0.0)
    keeps_output: bool = True
    prefix_name: str = "shared prefix"

    def __post_init__(self) -> None:
        if self.shared_prefix_tokens < 0:
            raise WorkloadError(f"shared_prefix_tokens {self.shared_prefix_tokens} must be at least 0")

    @property
    def prefix(self) -> tuple[Span, ...]:
        """The shared prefix."""
        length = self.shared_prefix_tokens
        return (Span(self.prefix_name, 0, length),) if length else ()

    def session(self, name: str, rng: np.random.Generator) -> Session:
        """Draw a session."""
        turns = tuple(
            Turn(whole(self.new_tokens, rng), whole(self.output_tokens, rng), self.think_s.draw(rng))
            for _ in range(whole(self.turns, rng))
        )
        return Session(name, self.prefix, turns, self.keeps_output)

    @property
    def mean_unique_tokens(self) -> float:
        """Tokens that belong to one session alone at its deepest, on average: its last answer included."""
        turns, kept = self.turns.mean, self.output_tokens.mean if self.keeps_output else 0.0
        return turns * self.new_tokens.mean + (turns - 1) * kept + self.output_tokens.mean
