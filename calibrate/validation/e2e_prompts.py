"""What the prompts of a benchmark have in common, as far as its row says: nothing, a cycle of texts, conversations."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrate.validation.e2e_experiments import Experiment
from workloads.span import Span

Spans = tuple[Span, ...]

CYCLE = 100  # texts that the shared-prefix data set of inference-perf sends again and again
_GROUPS, _GROUP_TOKENS = 10, 100  # of its system prompts, where the row does not say
_CONVERSATIONS = re.compile(r"(\d+) conversations x up to (\d+) turns grown from (\d+) starters")
STARTER_SHARE, VARIANTS_PER_STARTER = 0.65, 7
"""Of a grown conversation: how much of the mean prompt its starter makes, and in how many ways a starter goes on.

No row states them. They are fitted: so that mean, p95 and p99 of TTFT come out right on average at the five lowest
rates of two runs of the one source that has such prompts (do_h200_70b_multiturn_p0 and _mem095)."""


def own_text(number: int, tokens: int) -> Spans:
    """Return a prompt nobody else sends."""
    return (Span(("own", number), 0, tokens),)


def cycled(experiment: Experiment, prompt: int, tokens: int) -> Spans:
    """Return a prompt of a cycle: a system prompt some of the cycle share, then a text of its own.

    Which prompts share is not stated; they take turns.
    """
    stated = re.search(r"(\d+) system prompts of (\d+) tokens", experiment.prefix_sharing)
    groups, shared = (int(stated[1]), int(stated[2])) if stated else (_GROUPS, _GROUP_TOKENS)
    shared = min(shared, tokens)
    return (Span(("system", prompt % groups), 0, shared), Span(("text", prompt), 0, tokens - shared))


def is_cycled(experiment: Experiment) -> bool:
    """Whether the row speaks of a cycle of prompts."""
    return "cycle" in experiment.prefix_sharing


def has_conversations(experiment: Experiment) -> bool:
    """Whether the row speaks of conversations whose turns are prompts."""
    return _CONVERSATIONS.search(experiment.prefix_sharing) is not None


def conversations(experiment: Experiment, mean_tokens: float, rng: np.random.Generator) -> Iterator[Spans] | None:
    """Return the turns of grown conversations as prompts of their own, in random order; None if the row has none.

    A row states how many conversations, turns and starters, and the mean prompt; after the starter each turn adds as
    much as any. What it leaves open: STARTER_SHARE, VARIANTS_PER_STARTER.
    """
    stated = _CONVERSATIONS.search(experiment.prefix_sharing)
    if stated is None:
        return None
    many, turns, starters = (int(part) for part in stated.groups())
    opening = round(STARTER_SHARE * mean_tokens)
    growth = round(2 * (mean_tokens - opening) / max(turns - 1, 1))

    def prompt(place: int) -> Spans:
        conversation, turn = divmod(place, turns)
        starter, variant = conversation % starters, conversation // starters % VARIANTS_PER_STARTER
        return (Span(("starter", starter), 0, opening), Span(("talk", starter, variant), 0, turn * growth))

    return (prompt(int(place)) for place in rng.permutation(many * turns))


def drawn(lengths: Sequence[int] | NDArray[np.int64]) -> Iterator[Spans]:
    """Return prompts of these lengths that share nothing."""
    return (own_text(number, int(tokens)) for number, tokens in enumerate(lengths))
