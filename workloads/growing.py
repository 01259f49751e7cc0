"""Sessions as recorded agents have them: they begin with a context of their own, grow, and at times lose some of it.

A request after the first is one of four. Most extend the last prompt and its answer. Some leave that answer out
(thinking is stripped) and extend the prompt. Some keep a front of the context and send the rest anew, as long as
before (something in the middle changed). And some compact: what is left is a share of what was.

A session compacts too where its agent's own limit or the model's length is reached; without compaction it ends there.
A share of sessions is resumed: they begin where an earlier one stopped, with a long context and fewer requests to go.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from workloads.distributions import Constant, Distribution, whole
from workloads.errors import WorkloadError
from workloads.session import Session, Turn
from workloads.span import Span

_REDRAWS = 100
_MEAN_OF = 200  # sessions


@dataclass(frozen=True, slots=True)
class Compaction:
    """On `share` of the requests after the first, `left` of a session's own context is left.

    Of what is left, `kept` is the old context's front, which the cache may hold; the rest is new, such as a summary.
    A session whose prompt would exceed `above_tokens`, drawn once a session, compacts at once, unless it began there.
    """

    share: float
    left: Distribution
    kept: Distribution = Constant(0.0)
    above_tokens: Distribution | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """A `share` of sessions: how their first prompt is long, beyond the shared prefix, and how many turns follow."""

    share: float
    first_tokens: Distribution
    turns: Distribution


@dataclass(frozen=True, slots=True)
class Opening:
    """The first `turns` after the first of a session that is not resumed: agents look around before they work."""

    turns: int
    new_tokens: Distribution


@dataclass(frozen=True, slots=True)
class Rewrites:
    """On `share` of the requests after the first, all but the first `kept` of a session's own context is sent anew."""

    share: float
    kept: Distribution = Constant(0.0)


@dataclass(frozen=True, slots=True)
class GrowingWorkload:
    """How sessions are drawn; `most_tokens` is the model's length, which no prompt exceeds with its answer."""

    shared_prefix_tokens: int
    turns: Distribution
    first_tokens: Distribution  # of the first prompt, beyond the shared prefix
    new_tokens: Distribution  # of later ones, beyond context and answer
    output_tokens: Distribution
    think_s: Distribution = Constant(0.0)
    stripped_share: float = 0.0  # of the requests after the first: the answer before them is not in them
    compaction: Compaction | None = None
    rewrites: Rewrites | None = None
    resumed: Resumed | None = None
    opening: Opening | None = None
    keeps_output: bool = True
    prefix_name: str = "shared prefix"
    most_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.shared_prefix_tokens < 0:
            raise WorkloadError(f"shared_prefix_tokens {self.shared_prefix_tokens} must be at least 0")
        most, shared = self.most_tokens, self.shared_prefix_tokens
        if most is not None and shared + 2 > most:
            raise WorkloadError(f"shared_prefix_tokens {shared:,} leave nothing of max_model_len {most:,}")

    @property
    def prefix(self) -> tuple[Span, ...]:
        """The shared prefix."""
        length = self.shared_prefix_tokens
        return (Span(self.prefix_name, 0, length),) if length else ()

    @property
    def mean_unique_tokens(self) -> float:
        """Tokens that belong to one session alone at its deepest: the mean over many drawn ones."""
        return _mean_depth(self)

    def session(self, name: str, rng: np.random.Generator) -> Session:
        """Draw a session."""
        resumed = self.resumed if self.resumed is not None and rng.random() < self.resumed.share else None
        number = whole(self.turns if resumed is None else resumed.turns, rng)
        first = self._first(self.first_tokens if resumed is None else resumed.first_tokens, rng)
        turns, context = [first], first.new_tokens
        limit = self._limit(context, rng)
        opening = self.opening if resumed is None else None
        for index in range(number - 1):
            new_tokens = opening.new_tokens if opening is not None and index < opening.turns else self.new_tokens
            new, output, think_s = self._drawn(new_tokens, rng)
            drawn = self._next(context, Turn(new, output, think_s), turns[-1].output_tokens, limit, rng)
            if drawn is None:
                break
            turn, context = drawn
            turns.append(turn)
        return Session(name, self.prefix, tuple(turns), self.keeps_output, resumed is not None)

    def _limit(self, first: int, rng: np.random.Generator) -> float:
        """Draw how many own tokens a prompt of this session may have until its agent compacts."""
        if self.compaction is None or self.compaction.above_tokens is None:
            return math.inf
        limit = self.compaction.above_tokens.draw(rng) - self.shared_prefix_tokens
        return limit if limit >= first else math.inf

    def _first(self, first_tokens: Distribution, rng: np.random.Generator) -> Turn:
        """Draw the first turn; those that the model could not take are drawn again, since nobody sends them."""
        new, output, think_s = self._drawn(first_tokens, rng)
        for _ in range(_REDRAWS):
            if self._fits(new, output):
                break
            new, output, _ = self._drawn(first_tokens, rng)
        new, output = self._clipped(new, output)
        return Turn(new, output, think_s)

    def _next(
        self, context: int, drawn: Turn, answer: int, limit: float, rng: np.random.Generator
    ) -> tuple[Turn, int] | None:
        """Return a turn after a context and its answer; None where the session is as long as the model can take."""
        new, output, think_s = drawn.new_tokens, drawn.output_tokens, drawn.think_s
        before = context + answer if self.keeps_output else context
        kept: int | None = None
        length = before + new
        change = self._change(rng)
        if change == "rewrites":
            assert self.rewrites is not None
            kept = round(min(self.rewrites.kept.draw(rng), 1.0) * context)
        elif change == "strips":
            kept, length = context, context + new
        if change != "compacts" and length <= limit and self._fits(length, output):
            return Turn(length - (before if kept is None else kept), output, think_s, kept), length
        return None if self.compaction is None else self._compacted(before, output, think_s, rng)

    def _change(self, rng: np.random.Generator) -> str:
        """Draw what becomes of the context; where nothing ever does, nothing is drawn."""
        compacts = self.compaction.share if self.compaction is not None else 0.0
        rewrites = compacts + (self.rewrites.share if self.rewrites is not None else 0.0)
        strips = rewrites + self.stripped_share
        if not strips:
            return "grows"
        chance = float(rng.random())
        if chance < compacts:
            return "compacts"
        if chance < rewrites:
            return "rewrites"
        return "strips" if chance < strips else "grows"

    def _compacted(self, before: int, output: int, think_s: float, rng: np.random.Generator) -> tuple[Turn, int]:
        assert self.compaction is not None
        how = self.compaction
        length = max(round(min(how.left.draw(rng), 1.0) * before), 1)
        length, output = self._clipped(length, output)
        kept = min(round(min(how.kept.draw(rng), 1.0) * length), length - 1)
        return Turn(length - kept, output, think_s, kept), length

    def _drawn(self, new: Distribution, rng: np.random.Generator) -> tuple[int, int, float]:
        return whole(new, rng), whole(self.output_tokens, rng), self.think_s.draw(rng)

    def _fits(self, own: int, output: int) -> bool:
        return self.most_tokens is None or self.shared_prefix_tokens + own + output <= self.most_tokens

    def _clipped(self, own: int, output: int) -> tuple[int, int]:
        """Return lengths that fit: the answer at most half of what is left beside the prefix, then the prompt."""
        if self._fits(own, output) or self.most_tokens is None:
            return own, output
        room = self.most_tokens - self.shared_prefix_tokens
        output = min(output, max(room // 2, 1))
        return min(own, room - output), output


@lru_cache(maxsize=64)
def _mean_depth(workload: GrowingWorkload) -> float:
    rng = np.random.default_rng(0)
    total = 0
    for number in range(_MEAN_OF):
        session = workload.session(str(number), rng)
        pairs = zip(session.turns, session.lengths(), strict=True)
        total += max(length.tokens + turn.output_tokens for turn, length in pairs) - workload.shared_prefix_tokens
    return total / _MEAN_OF
