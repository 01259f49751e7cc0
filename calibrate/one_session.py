"""What one session alone sees, straight from a step-time model: no queue, so no simulation is needed.

A lone session's turns are a prefill in chunks of the token budget and then one decode step a token. These are
the figures a public write-up or a first try on new hardware gives, and all this file predicts.
"""

from dataclasses import dataclass

import numpy as np

from sim.steptime.batch import BatchShape
from sim.steptime.model import StepTimeModel


@dataclass(frozen=True, slots=True)
class LoneTurn:
    """One turn without company: tokens found cached, tokens to prefill, tokens to generate."""

    cached_tokens: int
    new_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class FrontendTimes:
    """Off-GPU work before the scheduler sees a request, in seconds."""

    per_request_s: float
    per_prompt_token_s: float


def ttft_s(model: StepTimeModel, frontend: FrontendTimes, turn: LoneTurn, max_num_batched_tokens: int) -> float:
    """Return time to first token; the last chunk samples it."""
    prompt = turn.cached_tokens + turn.new_tokens
    total = frontend.per_request_s + frontend.per_prompt_token_s * prompt
    done = turn.cached_tokens
    while done < prompt:
        tokens = min(max_num_batched_tokens, prompt - done)
        pairs = tokens * (done + (tokens + 1) / 2)
        done += tokens
        total += model.seconds(
            BatchShape(tokens, int(done == prompt), pairs, 0, 0, holds_prefill=True, prefill_kv_tokens=done)
        )
    return total


def decode_s(model: StepTimeModel, turn: LoneTurn) -> float:
    """Return the time from the first token to the last."""
    prompt = turn.cached_tokens + turn.new_tokens
    contexts = range(prompt + 1, prompt + turn.output_tokens)
    return sum(model.seconds(BatchShape(1, 1, 0.0, 1, context)) for context in contexts)


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """A whole session's figures: percentiles over its turns, and requests a second without think time."""

    ttft_p50_s: float
    ttft_p95_s: float
    ttft_p99_s: float
    requests_per_s: float


def session_figures(
    model: StepTimeModel, frontend: FrontendTimes, turns: list[LoneTurn], max_num_batched_tokens: int
) -> SessionFigures:
    """Return the figures of a closed loop of one session without think time."""
    ttfts = [ttft_s(model, frontend, turn, max_num_batched_tokens) for turn in turns]
    busy_s = sum(ttfts) + sum(decode_s(model, turn) for turn in turns)
    p50, p95, p99 = np.percentile(ttfts, [50, 95, 99])
    return SessionFigures(float(p50), float(p95), float(p99), len(turns) / busy_s)
