"""Sessions of several turns: as listed by session and turn, else as the scenario's workload draws them.

A listed turn's prompt extends the one before, answer included where it is long enough to hold it; the pause before it
is the measured one, from the answer to the next send. A prompt that is shorter than the one before it is another text
from the shared prefix on, as after a compaction.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from calibrate.compare.clients import ListedSession
from calibrate.compare.lengths import Lengths, check_lengths
from calibrate.compare.sharing import PREFIX
from calibrate.measured.run import MeasuredRequest, MeasuredRun
from workloads.recorded import RecordedSession, RecordedTurn
from workloads.session import Prompt
from workloads.span import Span, joined
from workloads.workload import Workload


def listed_sessions(run: MeasuredRun, sent: Sequence[MeasuredRequest], prefix_tokens: int) -> list[ListedSession]:
    """Return the sessions of listed requests, those that began first first; empty where no request names one.

    `prefix_tokens` is the scenario's prefix; without one, sessions share what their first turns found cached.
    """
    if not any(request.session is not None for request in sent) or any(one.prompt_tokens < 1 for one in sent):
        return []
    check_lengths(run, Lengths([one.prompt_tokens for one in sent], [max(1, one.output_tokens) for one in sent]))
    talks: dict[str, list[MeasuredRequest]] = {}
    for number, request in enumerate(sent):
        talks.setdefault(request.session if request.session is not None else f"request {number}", []).append(request)
    ordered = [(name, sorted(turns, key=_order)) for name, turns in talks.items()]
    sessions = [_session(name, turns, prefix_tokens or turns[0].hit_tokens or 0) for name, turns in ordered]
    return sorted(sessions, key=lambda one: one.session.at_s)


def shared_tokens(sessions: Sequence[ListedSession]) -> int:
    """Return the longest prefix that listed sessions share with others."""
    fronts = [one.session.turns[0].prompt.spans[0] for one in sessions]
    return max((front.length for front in fronts if front.content == PREFIX), default=0)


def drawn_sessions(workload: Workload, requests: int, fewest: int, seed: int) -> list[RecordedSession]:
    """Return sessions of a scenario's workload, `fewest` or as many as make so many requests.

    Each draws from its own stream, so that a load of more sessions begins with the same.
    """
    sessions: list[RecordedSession] = []
    turns = 0
    while turns < requests or len(sessions) < fewest:
        number = len(sessions)
        session = workload.session(f"session {number}", np.random.default_rng([seed, 3, number]))
        pauses = [0.0, *(turn.think_s for turn in session.turns[:-1])]
        asked = tuple(RecordedTurn(pause, prompt) for pause, prompt in zip(pauses, session.prompts(), strict=True))
        sessions.append(RecordedSession(0.0, asked))
        turns += len(asked)
    return sessions


def turns_span_s(sent: Sequence[MeasuredRequest]) -> float | None:
    """Return the time from the first to the last send of any turn; None where it is not listed."""
    times = [request.sent_s for request in sent if request.sent_s is not None]
    return max(times) - min(times) if len(times) == len(sent) and len(times) > 1 else None


def _order(request: MeasuredRequest) -> tuple[float, float]:
    return (request.turn if request.turn is not None else -1, request.sent_s or 0.0)


def _session(name: str, turns: Sequence[MeasuredRequest], prefix_tokens: int) -> ListedSession:
    shared = min(prefix_tokens, *(turn.prompt_tokens for turn in turns))
    pauses = [0.0, *(_pause_s(before, after) for before, after in pairwise(turns))]
    kept = [before.prompt_tokens + before.output_tokens <= after.prompt_tokens for before, after in pairwise(turns)]
    rewritten = [0, *(_is_rewritten(before, after, shared) for before, after in pairwise(turns))]
    recorded = tuple(
        RecordedTurn(pause, _prompt((name, text), number, turn, shared, keeps=keeps))
        for number, (pause, text, turn, keeps) in enumerate(
            zip(pauses, accumulate(rewritten), turns, [*kept, True], strict=True)
        )
    )
    last = turns[-1]
    end_s = None if last.sent_s is None or last.e2e_s is None else last.sent_s + last.e2e_s
    return ListedSession(RecordedSession(turns[0].sent_s or 0.0, recorded), end_s, turns[0].depth)


def _prompt(text: tuple[str, int], number: int, turn: MeasuredRequest, shared: int, *, keeps: bool) -> Prompt:
    own = turn.prompt_tokens - shared
    line = ("talk", *text) if keeps else ("talk", *text, "answer", number)
    spans = joined([Span(PREFIX, 0, shared), Span(("talk", *text), 0, own)])
    return Prompt(spans, Span(line, own, max(1, turn.output_tokens)))


def _is_rewritten(before: MeasuredRequest, after: MeasuredRequest, shared: int) -> bool:
    """Whether a shorter prompt is another text: unless most of it was found in the cache."""
    hit = (after.hit_tokens or 0) - shared
    return after.prompt_tokens < before.prompt_tokens and 2 * hit <= after.prompt_tokens - shared


def _pause_s(before: MeasuredRequest, after: MeasuredRequest) -> float:
    if before.sent_s is None or after.sent_s is None or before.e2e_s is None:
        return 0.0
    return max(0.0, after.sent_s - before.sent_s - before.e2e_s)
