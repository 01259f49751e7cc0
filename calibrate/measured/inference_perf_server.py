"""What inference-perf asked of Prometheus about the server, `*_prometheus_metrics.json`.

KV usage and prefix hits of exactly 0 under load are left out: the tool asked for names that vLLM no longer exported.
Latencies there come from buckets and are not read.
"""

from pathlib import Path
from typing import Any

from calibrate.measured.fields import Fields

RENAMED = (
    "KV usage and prefix hits of exactly 0 are left out: asked for under metric names that newer vLLM no longer exports"
)


def server_metrics(file: Path, value: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return this table's server metrics, and what is to say about them."""
    done = Fields(file, "", value).inner("successes")
    found: dict[str, float] = {}
    notes = []
    usage = done.inner("kv_cache_usage_percentage")
    peak = usage.number("max", "p99")
    hits = done.inner("prefix_cache_hit_percent").number("mean", "rate")
    if peak:
        found["kv_usage_peak"] = peak / 100 if peak > 1 else peak
        if "max" not in usage.values:
            notes.append("kv_usage_peak is a p99 over the stage")
    if hits:
        found["prefix_hit_rate"] = hits / 100
    if not (peak or hits) and (usage.values or done.inner("prefix_cache_hit_percent").values):
        notes.append(RENAMED)
    preemptions = done.inner("num_preemptions_total").number("mean", "total")  # a total, whatever its key says
    if preemptions is not None:
        found["preemptions"] = preemptions
    waited = done.inner("request_queue_time")
    for name, keys in {"queue_mean_s": ("mean",), "queue_p50_s": ("median", "p50")}.items():
        if wait_s := waited.seconds(*keys):
            found[name] = wait_s
    queue = done.inner("queue_len").number("mean")
    if queue:
        notes.append(f"{queue:g} requests waited in the server on average")
    return found, notes
