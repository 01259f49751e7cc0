"""A trace as a kind of user: who begins a session lives through a recorded one, drawn from the trace.

Several users may live through the same session at once. What such clones share is a rule: with `local` ids what the
trace itself says that its sessions share, and nothing else; with `rename` not even ids of a scope over the whole trace
count between sessions, only the front that the trace says is common; with `keep` ids are taken at their word
everywhere, so that clones, and sessions of two files that number alike, share all that is numbered alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workloads.errors import WorkloadError
from workloads.session import Prompt
from workloads.span import Span, total_tokens
from workloads.traces.content_lines import common_front, cut
from workloads.traces.digest import trace_digest
from workloads.traces.open import open_trace
from workloads.traces.reading import ReadOptions
from workloads.traces.request import BlockIds, TraceRequest
from workloads.traces.sampling import is_chosen
from workloads.traces.sessions import Changes, ReplayedSession, ReplayedTurn, ReplayRules, gather
from workloads.traces.shared_content import (
    EVERYTHING,
    FRONTS,
    Owned,
    Shared,
    family,
    owned,
    shared_front_tokens,
    shared_stretches,
    turns_of,
)

FAITHFUL = ReplayRules()


class ReplayTotals(NamedTuple):
    """What a replay draws from. Tokens and turns are of every session once, subagents included."""

    sessions: int
    subagents: int
    requests: int
    prompt_tokens: int
    output_tokens: int
    mean_peak_tokens: float  # the deepest prompt of a session with its answer, on average
    front_tokens: int  # the front that all sessions share, or the longest that the trace names
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class Live:
    """A session that somebody lives through: a recorded one, and whose contents are called what."""

    name: str
    recorded: ReplayedSession
    owner: str  # whose private content it is; "" where contents keep their names
    shared: Shared
    most_shared: int = EVERYTHING  # tokens of the front

    @property
    def depth(self) -> int:
        """1 for a subagent."""
        return self.recorded.depth

    @property
    def last_subagents(self) -> tuple[ReplayedSession, ...]:
        """Started at the last answer."""
        return self.recorded.last_subagents

    def prompts(self) -> Iterator[tuple[ReplayedTurn, Prompt]]:
        """Yield each turn with what the engine is sent."""
        last = self.recorded.turns[-1] if self._ends_alone() else None
        for turn in self.recorded.turns:
            (answer,) = self._own((turn.answer,), turn.prompt_tokens)
            spans = self._own(turn.spans)
            yield turn, Prompt(spans, answer, self.shared_tokens(spans) if turn is last else None)

    def _ends_alone(self) -> bool:
        """Return whether nobody holds what is private to this session once its last turn is over."""
        return bool(self.owner) and not self.depth and not self.recorded.last_subagents

    def subagents(self, of: tuple[ReplayedSession, ...]) -> "list[Live]":
        """Return subagents as this session's."""
        return [replace(self, name=f"{self.name}/{one.name}", recorded=one) for one in of]

    def shared_tokens(self, spans: tuple[Span, ...]) -> int:
        """Return how much of the front of a prompt may be sent again by others."""
        return sum(span.length for span in takewhile(lambda span: not isinstance(span.content, Owned), spans))

    def _own(self, spans: tuple[Span, ...], at: int = 0) -> tuple[Span, ...]:
        """Return spans that begin at a token of the prompt, private content renamed."""
        return owned(spans, self.owner, self.shared, self.most_shared - at) if self.owner else spans


@dataclass(frozen=True, slots=True)
class Replay:
    """Sessions to draw from."""

    path: Path
    format: str
    digest: str
    rules: ReplayRules
    sessions: tuple[ReplayedSession, ...]
    shared: Shared
    totals: ReplayTotals
    changes: Changes
    prefix: tuple[Span, ...]  # the front that all sessions share, or the longest that the trace names
    notes: tuple[str, ...] = ()

    @property
    def shared_prefix_tokens(self) -> int:
        """How long it is."""
        return total_tokens(self.prefix)

    @property
    def mean_unique_tokens(self) -> float:
        """Tokens that belong to one session alone at its deepest, on average: its last answer included."""
        return self.totals.mean_peak_tokens - self.totals.front_tokens

    def session(self, name: str, rng: np.random.Generator) -> Live:
        """Draw a session, each as likely as every other."""
        drawn = self.sessions[int(rng.integers(len(self.sessions)))]
        name = f"{name} {drawn.name}"
        if self.rules.ids == "keep":
            return Live(name, drawn, "", self.shared)
        front = shared_front_tokens(drawn.turns[0].spans, self.shared)
        return Live(name, drawn, name, self.shared, int(front * self.rules.shared_prefix_share))


def read_replay(path: Path, options: ReadOptions = ReadOptions(), rules: ReplayRules = FAITHFUL) -> Replay:
    """Read a trace's sessions into memory, as spans.

    Raises WorkloadError for a row that is wrong, a trace without sessions, or rules that leave none.
    """
    opened = open_trace(path, options)
    digest = trace_digest(opened.files)
    changes = Changes()
    sessions = gather(_chosen(iter(opened), rules), rules, changes, str(path))
    if not sessions:
        why = f" of a share of {rules.share:g} with seed {rules.seed}" if rules.share < 1 else ""
        why += f"; all are longer than {rules.max_context_tokens:,} tokens" if changes.dropped else ""
        raise WorkloadError(f"{path}: no sessions are left to replay{why}")
    shared = shared_stretches(sessions) if rules.ids == "local" else FRONTS
    prefix = _prefix(sessions, shared, rules.shared_prefix_share)
    totals = _totals(sessions, total_tokens(prefix), opened.bad_rows)
    return Replay(
        path, opened.format.name, digest, rules, tuple(sessions), shared, totals, changes, prefix, tuple(opened.notes)
    )


def _chosen(requests: Iterator[TraceRequest], rules: ReplayRules) -> Iterator[TraceRequest]:
    """Yield the requests of chosen sessions; subagents go with their parent."""
    roots: dict[str, str] = {}
    taken: set[str] = set()
    for request in requests:
        if request.session is not None:
            root = request.session if request.parent is None else roots.get(request.parent, request.parent)
            roots[request.session] = root
            if rules.share < 1 and not is_chosen(root, rules.share, rules.seed):
                continue
            if rules.sessions is not None and root not in taken and len(taken) >= rules.sessions:
                continue
            taken.add(root)
        yield _scoped(request, rules)


def _scoped(request: TraceRequest, rules: ReplayRules) -> TraceRequest:
    """Return a request whose ids count everywhere, where they are to be kept as they stand."""
    if rules.ids == "keep" and isinstance(request.content, BlockIds):
        return request._replace(content=request.content._replace(scope=None))
    return request


def _totals(sessions: list[ReplayedSession], front_tokens: int, bad_rows: int) -> ReplayTotals:
    everybody = [one for root in sessions for one in family(root)]
    turns = [turn for root in sessions for turn in turns_of(root)]
    peaks = [max(turn.prompt_tokens + turn.answer.length for turn in one.turns) for one in sessions]
    return ReplayTotals(
        sessions=len(sessions),
        subagents=len(everybody) - len(sessions),
        requests=len(turns),
        prompt_tokens=sum(turn.prompt_tokens for turn in turns),
        output_tokens=sum(turn.answer.length for turn in turns),
        mean_peak_tokens=sum(peaks) / len(peaks),
        front_tokens=front_tokens,
        bad_rows=bad_rows,
    )


def _prefix(sessions: list[ReplayedSession], shared: Shared, share: float) -> tuple[Span, ...]:
    """Return what is in the cache when everybody's first turn has been there, as far as all share it."""
    first = [session.turns[0].spans for session in sessions]
    named = max(first, key=lambda spans: spans[0].length if spans[0].content in FRONTS else 0)
    front = named[:1] if named[0].content in FRONTS else reduce(common_front, first)
    return cut(front, int(share * shared_front_tokens(front, shared)))
