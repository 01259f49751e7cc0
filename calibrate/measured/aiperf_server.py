"""AIPerf's `server_metrics_export.json`: what it scraped from the server during the profiled phase."""

from collections.abc import Iterator
from pathlib import Path

from calibrate.measured.fields import Fields
from calibrate.measured.json_values import json_values
from calibrate.measured.prometheus_run import HITS, QUERIES, USAGE


def server_metrics(path: Path) -> tuple[dict[str, float], list[str]]:
    """Return this table's server metrics, and what is to say about them."""
    _, value = next(json_values(path))
    metrics = Fields(path, "", value if isinstance(value, dict) else {}).inner("metrics")
    found: dict[str, float] = {}
    usages = [peak for name in USAGE for one in _stats(metrics, name) if (peak := one.number("max")) is not None]
    if usages:
        found["kv_usage_peak"] = max(usages)
    running = [peak for one in _stats(metrics, "num_requests_running") if (peak := one.number("max")) is not None]
    if running:
        found["running_peak"] = sum(running)
    preemptions = _total(metrics, ("num_preemptions",))
    if preemptions is not None:
        found["preemptions"] = preemptions
    queries, hits = _total(metrics, QUERIES), _total(metrics, HITS)
    if queries and hits is not None:
        found["prefix_hit_rate"] = hits / queries
    return found, [] if found else [f"{path.name} holds no metric of vLLM"]


def _stats(metrics: Fields, name: str) -> Iterator[Fields]:
    for full in (f"vllm:{name}", f"vllm:{name}_total"):
        family = metrics.inner(full)
        for series in family.items("series"):
            if isinstance(series, dict):
                yield Fields(metrics.file, full, series).inner("stats")


def _total(metrics: Fields, names: tuple[str, ...]) -> float | None:
    totals = [
        value for name in names for one in _stats(metrics, name) if (value := one.number("total", "delta")) is not None
    ]
    return sum(totals) if totals else None
