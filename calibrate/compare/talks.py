"""Sessions of several turns: as listed by session and turn, else as the scenario's workload draws them.

A listed turn's prompt extends the one before, answer included where it is long enough to hold it; the pause before it
is the measured one, from the answer to the next send.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from calibrate.compare.lengths import Lengths, check_lengths
from calibrate.compare.sharing import PREFIX
from calibrate.measured.run import MeasuredRequest, MeasuredRun
from workloads.recorded import RecordedSession, RecordedTurn
from workloads.session import Prompt
from workloads.span import Span, joined
from workloads.workload import Workload


def listed_sessions(run: MeasuredRun, sent: Sequence[MeasuredRequest], prefix_tokens: int) -> list[RecordedSession]:
    """Return the sessions of listed requests, those that began first first; empty where no request names one."""
    if not any(request.session is not None for request in sent) or any(one.prompt_tokens < 1 for one in sent):
        return []
    check_lengths(run, Lengths([one.prompt_tokens for one in sent], [max(1, one.output_tokens) for one in sent]))
    talks: dict[str, list[MeasuredRequest]] = {}
    for number, request in enumerate(sent):
        talks.setdefault(request.session if request.session is not None else f"request {number}", []).append(request)
    sessions = [_session(name, sorted(turns, key=_order), prefix_tokens) for name, turns in talks.items()]
    return sorted(sessions, key=lambda session: session.at_s)


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


def _session(name: str, turns: Sequence[MeasuredRequest], prefix_tokens: int) -> RecordedSession:
    shared = min(prefix_tokens, *(turn.prompt_tokens for turn in turns))
    pauses = [0.0, *(_pause_s(before, after) for before, after in pairwise(turns))]
    kept = [before.prompt_tokens + before.output_tokens <= after.prompt_tokens for before, after in pairwise(turns)]
    recorded = tuple(
        RecordedTurn(pause, _prompt(name, number, turn, shared, keeps=keeps))
        for number, (pause, turn, keeps) in enumerate(zip(pauses, turns, [*kept, True], strict=True))
    )
    return RecordedSession(turns[0].sent_s or 0.0, recorded)


def _prompt(name: str, number: int, turn: MeasuredRequest, shared: int, *, keeps: bool) -> Prompt:
    own = turn.prompt_tokens - shared
    line = ("talk", name) if keeps else ("talk", name, "answer", number)
    spans = joined([Span(PREFIX, 0, shared), Span(("talk", name), 0, own)])
    return Prompt(spans, Span(line, own, max(1, turn.output_tokens)))


def _pause_s(before: MeasuredRequest, after: MeasuredRequest) -> float:
    if before.sent_s is None or after.sent_s is None or before.e2e_s is None:
        return 0.0
    return max(0.0, after.sent_s - before.sent_s - before.e2e_s)
