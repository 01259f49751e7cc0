"""Which term explains a gap: the one that, re-fitted alone, leaves the least; ties are said, so is "none of them"."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calibrate.compare.refit import Refitted

_SMALL = 1.05  # where no group of metrics is off by more than this factor, there is nothing to explain
_EXPLAINS = 0.5  # share of the error that a term must remove to be named
_TIE = 0.05  # shares removed that are as good as the same
_RIVAL = 0.2  # and nearly as good
_ALL = 0.9  # share removed after which no second term is looked for
_GAP = 0.03  # nor below this mean error
_HELPS = 0.1  # share of the error that a second term must remove beside the first
_LEFT = 0.15  # a mean error that is still a gap


@dataclass(frozen=True, slots=True)
class Verdict:
    """The terms, best first, and what they amount to."""

    loss: float  # of the prediction as it is
    ranked: Sequence[Refitted]
    named: Sequence[Refitted]  # more than one: ties; none: nothing to explain, or none of them does
    sentence: str
    second: Refitted | None = None  # what beside the best term removes the most, where that leaves much

    def removed(self, refitted: Refitted) -> float:
        """Return the share of the error that a term removes."""
        return max(0.0, 1 - refitted.loss / self.loss) if self.loss > 0 else 0.0


def verdict_of(loss: float, misfits: Mapping[str, float], refitted: Sequence[Refitted]) -> Verdict:
    """Rank the terms and name what explains the gap."""
    ranked = sorted(refitted, key=lambda one: (one.loss, one.idle))
    bare = Verdict(loss, ranked, (), "")
    if not ranked or math.isnan(loss):
        return Verdict(loss, ranked, (), "nothing was re-fitted")
    best = ranked[0]
    if max(misfits.values(), default=1.0) < _SMALL:
        return Verdict(
            loss, ranked, (), f"nothing to explain: no group of metrics is off by more than {_SMALL - 1:.0%}"
        )
    removed = bare.removed(best)
    if removed < _EXPLAINS:
        sentence = "none of them: " + (
            f"{best.term.title} {best.shown} comes closest and removes only {removed:.0%} of the error"
            if removed > 0.01
            else "no single term makes the error smaller"
        )
        return Verdict(loss, ranked, (), sentence)
    named = [one for one in ranked if removed - bare.removed(one) < _TIE]
    words = [f"{one.term.title} {one.shown} (removes {bare.removed(one):.0%})" for one in named]
    if len(named) == 1:
        sentence = f"most likely {words[0]}"
    else:
        sentence = f"{' or '.join(words)}: these loads cannot tell them apart"
    rival = next((one for one in ranked if one not in named), None)
    if rival is not None and removed - bare.removed(rival) < _RIVAL:
        sentence += f"; {rival.term.title} {rival.shown} would explain nearly as much ({bare.removed(rival):.0%})"
    if best.bound:
        sentence += "; that is the last value such an engine can have, so more is behind it"
    elif best.loss > _LEFT:
        sentence += f"; still {as_share(best.loss)} off on average, so it is not all"
    return Verdict(loss, ranked, tuple(named), sentence)


def wants_a_second(verdict: Verdict) -> bool:
    """Whether the best term leaves so much that another one may be wrong too."""
    if not verdict.ranked or max(verdict.loss, 0) <= 0 or "nothing to explain" in verdict.sentence:
        return False
    best = verdict.ranked[0]
    return best.loss > _GAP and 0 < verdict.removed(best) < _ALL


def with_second(verdict: Verdict, refitted: Sequence[Refitted]) -> Verdict:
    """Add the term that, re-fitted beside the best one, leaves the least; nothing where it hardly helps."""
    second = min(refitted, key=lambda one: one.loss, default=None)
    if second is None or verdict.removed(second) - verdict.removed(verdict.ranked[0]) < _HELPS:
        return verdict
    best = verdict.ranked[0]
    said = f"{best.term.title} {best.shown} and {second.term.title} {second.shown} together remove"
    sentence = f"{verdict.sentence}; {said} {verdict.removed(second):.0%}"
    return replace(verdict, sentence=sentence, second=second)


def as_share(loss: float) -> str:
    """Return a mean logarithm as a share."""
    return f"{math.expm1(loss):.0%}"
