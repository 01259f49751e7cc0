"""Where a recorded trace's requests are from, in plain types."""

from dataclasses import asdict
from typing import Any

from sim.setup import Deployment


def trace_json(deployment: Deployment) -> dict[str, Any] | None:
    """Return path, format, digest, how it was read, by which rules, and what they changed; None without a trace."""
    source = deployment.trace or deployment.replay
    if source is None:
        return None
    described: dict[str, Any] = {
        "path": str(source.path),
        "format": source.format,
        "sha256": source.digest,
        "notes": list(source.notes),
        "rules": asdict(source.rules),
        "bad_rows": source.totals.bad_rows,
        "sessions": source.totals.sessions,
        "requests": source.totals.requests,
        "prompt_tokens": source.totals.prompt_tokens,
        "output_tokens": source.totals.output_tokens,
    }
    if deployment.trace is not None:
        return described | {"tick_s": deployment.trace.tick_s}
    assert deployment.replay is not None
    totals = deployment.replay.totals
    return described | {
        "subagents": totals.subagents,
        "mean_peak_tokens": totals.mean_peak_tokens,
        "shared_front_tokens": totals.front_tokens,
        "changes": asdict(deployment.replay.changes),
    }
