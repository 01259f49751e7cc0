"""What the engine's clients ask of a kind of session."""

from typing import Protocol

import numpy as np

from workloads.session import Session
from workloads.span import Span


class Workload(Protocol):
    """Draws sessions, all behind one shared prefix."""

    @property
    def shared_prefix_tokens(self) -> int:
        """Length of the front that all sessions share."""
        ...

    @property
    def prefix(self) -> tuple[Span, ...]:
        """The shared front."""
        ...

    @property
    def mean_unique_tokens(self) -> float:
        """Tokens that belong to one session alone at its deepest, on average: the answer there included."""
        ...

    def session(self, name: str, rng: np.random.Generator) -> Session:
        """Draw a session."""
        ...
