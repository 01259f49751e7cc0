"""What sessions of a workload look like when they are drawn: percentiles of lengths and pauses, and what a cache finds.

Reuse is that of a cache without a limit in which an idle session's KV is kept for so long. A prompt then finds what it
shares with the session's last prompt and answer if the pause since that answer is no longer; otherwise, as the first
prompt of a fresh session, only the prefix that all share, which is always warm. First prompts of resumed sessions are
left out unless asked for: nobody knows how long ago the session was last there.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from workloads.session import Session
from workloads.span import total_tokens
from workloads.workload import Workload

KEPT_FOR_S = (60.0, 300.0, 3600.0, float("inf"))
_SESSIONS = 1000


@dataclass(slots=True)
class DrawnSessions:
    """Samples of many sessions; prompts by session, everything else in a row."""

    turns: list[int] = field(default_factory=list[int])
    prompts: list[list[int]] = field(default_factory=list[list[int]])
    growth: list[int] = field(default_factory=list[int])  # of prompts over the last one, where they grow
    outputs: list[int] = field(default_factory=list[int])
    pauses_s: list[float] = field(default_factory=list[float])
    shrinks: int = 0
    counts_resumed: bool = False  # first prompts of resumed sessions too
    found: dict[float, int] = field(default_factory=lambda: dict.fromkeys(KEPT_FOR_S, 0))
    asked: int = 0

    def add(self, session: Session) -> None:
        """Take in a session."""
        shared = total_tokens(session.prefix)
        lengths = list(session.lengths())
        self.turns.append(len(lengths))
        self.prompts.append([length.tokens for length in lengths])
        self.outputs += [turn.output_tokens for turn in session.turns]
        pauses_s = [turn.think_s for turn in session.turns[:-1]]
        self.pauses_s += pauses_s
        for before, length in pairwise(lengths):
            if length.tokens > before.tokens:
                self.growth.append(length.tokens - before.tokens)
            self.shrinks += length.tokens < before.tokens
        for number, length in enumerate(lengths):
            if number or self.counts_resumed or not session.resumed:
                self.asked += length.tokens
                for kept_for_s in KEPT_FOR_S:
                    warm = number and pauses_s[number - 1] <= kept_for_s
                    self.found[kept_for_s] += length.held_tokens if warm else min(shared, length.held_tokens)

    def hit_rate(self, kept_for_s: float) -> float:
        """Return the share of prompt tokens that are found, by how long idle sessions are kept."""
        return self.found[kept_for_s] / self.asked

    def prompts_at(self, request: int) -> list[int]:
        """Return the lengths of all sessions' prompts number `request`, from 1."""
        return [lengths[request - 1] for lengths in self.prompts if len(lengths) >= request]


def drawn_sessions(
    workload: Workload, seed: int = 0, sessions: int = _SESSIONS, *, counts_resumed: bool = False
) -> DrawnSessions:
    """Draw sessions, the same for the same seed."""
    rng = np.random.default_rng(seed)
    drawn = DrawnSessions(counts_resumed=counts_resumed)
    for number in range(sessions):
        drawn.add(workload.session(str(number), rng))
    return drawn
