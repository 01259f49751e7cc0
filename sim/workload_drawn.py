"""Percentiles of what a workload draws, as plain data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from workloads.drawn import KEPT_FOR_S, DrawnSessions, drawn_sessions
from workloads.workload import Workload

AT_REQUESTS = (1, 5, 12, 20, 45, 90)
PERCENTILES = (25, 50, 75, 90, 95, 99)
_FEWEST = 10  # sessions that a median rests on


def drawn_summary(of: Workload | DrawnSessions, seed: int = 0) -> dict[str, Any]:
    """Return percentiles of requests, prompts, answers and pauses, and hit rates by how long idle sessions are kept."""
    drawn = of if isinstance(of, DrawnSessions) else drawn_sessions(of, seed)
    rows: dict[str, Sequence[float]] = {
        "requests_per_session": drawn.turns,
        "first_prompt_tokens": [prompts[0] for prompts in drawn.prompts],
        "prompt_tokens": [tokens for prompts in drawn.prompts for tokens in prompts],
        "longest_prompt_tokens": [max(prompts) for prompts in drawn.prompts],
        "growth_tokens": drawn.growth,
        "output_tokens": drawn.outputs,
        "pause_s": drawn.pauses_s,
    }
    steps = sum(drawn.turns) - len(drawn.turns)
    at = {number: drawn.prompts_at(number) for number in AT_REQUESTS}
    return {
        "sessions": len(drawn.turns),
        "percentiles": {name: percentiles(values) for name, values in rows.items() if values},
        "median_prompt_tokens_at_request": {
            str(number): round(float(np.median(tokens))) for number, tokens in at.items() if len(tokens) >= _FEWEST
        },
        "shrinking_share": drawn.shrinks / steps if steps else 0.0,
        "hit_rate_by_kept_s": {
            "unlimited" if kept_for_s == float("inf") else f"{kept_for_s:g}": drawn.hit_rate(kept_for_s)
            for kept_for_s in KEPT_FOR_S
        },
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the percentiles that tables show, and the mean."""
    found = np.percentile(values, PERCENTILES)
    named = {f"p{share}": round(float(value), 3) for share, value in zip(PERCENTILES, found, strict=True)}
    return named | {"mean": round(float(np.mean(values)), 3)}
