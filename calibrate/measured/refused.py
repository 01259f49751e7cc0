"""JSON that looks like a result and is none: what it is, so that the refusal can say so."""

from typing import Any


def reason(value: Any) -> str | None:
    """Return why a value is no load test, or None where nothing is known about it."""
    if not isinstance(value, dict):
        return None
    if "hitRateCeiling" in value and "points" in value:
        return "hit rates of a cache simulator, not a load test: no request was timed"
    if "endpoints" in value.get("summary", {}) or (
        "metrics" in value and "endpoints_configured" in str(value.get("summary"))[:300]
    ):
        return "server metrics of AIPerf without a load: give the folder that holds its profile_export_aiperf.json"
    if "spans" in value or "resourceSpans" in value:
        return "a trace of spans, not a load test: see `kvcliff trace`"
    if "hash_ids" in value or "input_length" in value:
        return "a workload trace, not a load test: see `kvcliff trace`"
    return None
