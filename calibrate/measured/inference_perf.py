"""inference-perf's `*_lifecycle_metrics.json`: all in seconds, one file a stage, and a summary over all of them.

The client cannot be late without saying so: `schedule_delay` is noted, since above the knee requests wait there and
not in TTFT. Where its time per token does not add up with E2E and TTFT it counted pieces of the stream, not tokens:
TPOT and ITL are left out then, and the mean TPOT comes from the means.
"""

from pathlib import Path
from typing import Any

from calibrate.measured.fields import Fields
from calibrate.measured.run import MeasuredLoad, MeasuredRun
from calibrate.measured.statistics import rates_of

NAME = "inference-perf"
METRICS = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}
STATISTICS = {
    "mean": ("mean",),
    "p50": ("median", "p50"),
    "p75": ("p75",),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}
LATE_S = 0.1  # of schedule delay at p99 that is worth a note
OFF = 0.1  # of the time per token that may not add up


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is one stage, or the summary, of this tool."""
    successes = value.get("successes")
    return "load_summary" in value and isinstance(successes, dict) and "queue_len" not in successes


def read(file: Path, place: str, value: dict[str, Any]) -> MeasuredRun:
    """Return a stage as the client saw it."""
    fields = Fields(file, place, value)
    load, done = fields.inner("load_summary"), fields.inner("successes")
    completed, failed = done.whole("count"), fields.inner("failures").whole("count")
    prompts, outputs = (_tokens(done, f"{kind}_len", f"{kind}_tokens") for kind in ("prompt", "output"))
    metrics, notes = _latencies(done, outputs)
    rates = done.inner("throughput")
    metrics |= {
        name: rate
        for name, key in {
            "requests_per_s": "requests_per_sec",
            "input_tokens_per_s": "input_tokens_per_sec",
            "output_tokens_per_s": "output_tokens_per_sec",
            "total_tokens_per_s": "total_tokens_per_sec",
        }.items()
        if (rate := rates.number(key)) is not None
    }
    per_s = metrics.get("requests_per_s")
    duration_s = fields.seconds("benchmark_time_seconds") or None
    if duration_s is None:
        duration_s = completed / per_s if completed and per_s else load.seconds("send_duration")
    if "requests_per_s" not in metrics and completed:
        metrics |= rates_of(duration_s, completed, None, None)
    return MeasuredRun(
        file=file,
        format=NAME,
        place=place,
        tool="inference-perf",
        load=MeasuredLoad(
            concurrency=load.whole("concurrency", "concurrency_level"),
            rate_per_s=load.number("requested_rate"),
            requests=load.whole("count", "num_requests"),
        ),
        duration_s=duration_s,
        completed=completed,
        failed=failed,
        input_tokens_mean=prompts if completed else None,
        output_tokens_mean=outputs if completed else None,
        metrics=metrics if completed else {},
        notes=(*notes, *_lateness(load)),
        settings={
            key: f"{amount:g}"
            for key, name in {"achieved_rate": "achieved_rate", "send_duration_s": "send_duration"}.items()
            if (amount := load.number(name)) is not None
        },
    )


def _tokens(done: Fields, *keys: str) -> float | None:
    """Return the mean of the first of these distributions that is there."""
    return next((done.inner(key).number("mean") for key in keys if isinstance(done.values.get(key), dict)), None)


def _latencies(done: Fields, output_tokens: float | None) -> tuple[dict[str, float], list[str]]:
    latency = done.inner("latency")
    found = {}
    for metric, name in METRICS.items():
        values = latency.inner(name)
        for statistic, keys in STATISTICS.items():
            if (value := values.seconds(*keys)) is not None:
                found[f"{metric}_{statistic}_s"] = value
    e2e_s, ttft_s, stated_s = (found.get(f"{name}_mean_s") for name in ("e2e", "ttft", "tpot"))
    if e2e_s is None or ttft_s is None or output_tokens is None or output_tokens <= 1:
        return found, []
    meant_s = (e2e_s - ttft_s) / (output_tokens - 1)
    if stated_s is None or abs(stated_s - meant_s) <= OFF * meant_s:
        return found, []
    found = {key: value for key, value in found.items() if not key.startswith(("tpot", "itl"))}
    note = (
        "its time per output token does not add up with E2E and TTFT (it counts pieces of the stream): "
        "TPOT is taken from their means; its percentiles and ITL are left out"
    )
    return found | {"tpot_mean_s": meant_s}, [note]


def _lateness(load: Fields) -> list[str]:
    delay = load.inner("schedule_delay")
    late_s, median_s = delay.real("p99"), delay.real("median", "p50")
    if late_s is None or late_s < LATE_S:
        return []
    seen = f"the client sent late, by {median_s or 0:.3g} s at p50 and {late_s:.3g} s at p99"
    return [f"{seen}: it limits what is in flight, and that wait is in no latency"]
