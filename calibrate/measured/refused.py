"""JSON that looks like a result and is none: what it is, so that the refusal can say so."""

from typing import Any

from sim.errors import MeasurementError


class NoResultError(MeasurementError):
    """A file that is readable and no result of a load test."""


def reason(value: Any) -> str | None:
    """Return why a value is no load test, or None where nothing is known about it."""
    if not isinstance(value, dict):
        return None
    summary, successes = value.get("summary"), value.get("successes")
    known = {
        "hit rates of a cache simulator, not a load test: no request was timed": "hitRateCeiling" in value,
        "server metrics of AIPerf without a load: give the folder that holds its profile_export_aiperf.json": (
            "metrics" in value and isinstance(summary, dict) and "endpoints_configured" in summary
        ),
        "what inference-perf asked of Prometheus, without a load: give the folder with its lifecycle metrics": (
            isinstance(successes, dict) and "queue_len" in successes
        ),
        "an offline benchmark of vLLM: one batch, no request was timed from a client": (
            ("elapsed_time" in value and "num_requests" in value) or ("avg_latency" in value and "percentiles" in value)
        ),
        "a trace of spans, not a load test": "spans" in value or "resourceSpans" in value,
        "a workload trace, not a load test": "hash_ids" in value or "input_length" in value,
    }
    return next((why for why, holds in known.items() if holds), None)
