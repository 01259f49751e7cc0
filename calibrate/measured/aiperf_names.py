"""AIPerf's names and units: metrics as `{unit, avg, p50, ...}` or `{value, unit}`, converted to seconds by their unit.

`inter_token_latency` there is (latency - TTFT) / (tokens - 1), which is TPOT here; `inter_chunk_latency` is ITL.
"""

from calibrate.measured.fields import Fields

NAMES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2e": "request_latency",
}
STATISTICS = {"mean": "avg", "std": "std", "p50": "p50", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99"}
UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0, "min": 60.0}
RATES = {
    "requests_per_s": "request_throughput",
    "input_tokens_per_s": "input_token_throughput",
    "output_tokens_per_s": "output_token_throughput",
    "total_tokens_per_s": "total_token_throughput",
}
TPOT_NOTE = "TPOT is AIPerf's inter_token_latency, ITL its inter_chunk_latency: gaps between chunks"


def unit_s(metric: Fields, default: str = "ms") -> float:
    """Return how many seconds the unit of a metric is."""
    unit = metric.text("unit") or default
    if unit.lower() not in UNITS_S:
        raise metric.wrong("unit", f"is no unit of time: {', '.join(UNITS_S)}")
    return UNITS_S[unit.lower()]
