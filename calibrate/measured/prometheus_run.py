"""vLLM's own metrics as a load point: of one scrape since the server started, of two between them.

Names of V1, what it called them before, and V0's. Latencies are the server's: from arrival, without client and
network. Means are exact; of percentiles only the bucket is known, so they stand in notes, and the buckets are kept.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from calibrate.measured.fields import MOST
from calibrate.measured.prometheus_text import Buckets, Sample, range_of, samples
from calibrate.measured.run import MeasuredLoad, MeasuredRun
from sim.errors import MeasurementError

NAME = "vllm-prometheus"
HISTOGRAMS = {  # this table's metric -> names, newest first
    "ttft": ("time_to_first_token_seconds",),
    "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "tpot": ("request_time_per_output_token_seconds",),
    "e2e": ("e2e_request_latency_seconds",),
    "queue": ("request_queue_time_seconds", "time_in_queue_requests"),
    "prompt": ("request_prompt_tokens",),
    "output": ("request_generation_tokens",),
}
HITS, QUERIES = ("prefix_cache_hits", "gpu_prefix_cache_hits"), ("prefix_cache_queries", "gpu_prefix_cache_queries")
USAGE = ("kv_cache_usage_perc", "gpu_cache_usage_perc")
HIT_GAUGE = "gpu_prefix_cache_hit_rate"  # of V0; -1 for none
BAD_ENDS = {"abort", "error"}
SINCE_START = "one scrape: all since the server started; give a scrape from before and one from after the test"
SERVER_SIDE = "latencies are the server's, from arrival: without client and network"


@dataclass
class Scrape:
    """vLLM's values of one scrape, summed over engines."""

    path: Path
    counters: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # without `_total`
    gauges: dict[str, float] = field(default_factory=dict)  # the most of any engine; running requests are summed
    ends: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # requests by how they ended
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    model: str | None = None


def read_scrape(path: Path) -> Scrape:
    """Return vLLM's values in a file.

    Raises MeasurementError for a line that is none, and where nothing is vLLM's.
    """
    scrape = Scrape(path)
    seen = False
    for sample in samples(path):
        if not sample.name.startswith(("vllm:", "vllm_")) or sample.name.endswith("_created"):
            continue
        seen = True
        name = sample.name[5:]
        scrape.model = scrape.model or sample.labels.get("model_name")
        if name.endswith("_bucket") and "le" in sample.labels:
            bounds = scrape.buckets.setdefault(name.removesuffix("_bucket"), defaultdict(float))
            bounds[_bound(path, sample.labels["le"])] += _count(path, sample)
        elif name == "request_success_total":
            scrape.ends[sample.labels.get("finished_reason", "")] += _count(path, sample)
        elif name.endswith(("_total", "_sum", "_count")):
            scrape.counters[name.removesuffix("_total")] += _count(path, sample)
        elif not math.isfinite(sample.value):
            continue  # a gauge of nothing
        elif name.startswith("num_requests_"):
            if "reason" not in sample.labels:
                scrape.gauges[name] = scrape.gauges.get(name, 0.0) + sample.value
        else:
            scrape.gauges[name] = max(scrape.gauges.get(name, -math.inf), sample.value)
    if not seen:
        raise MeasurementError(f"{path}: a scrape of Prometheus without any metric of vLLM")
    return scrape


def runs_of(scrapes: Sequence[Scrape]) -> list[MeasuredRun]:
    """Return the load of one scrape, or what lies between each and the next."""
    if len(scrapes) == 1:
        return [_run(scrapes[0], None)]
    return [_run(after, before) for before, after in pairwise(scrapes)]


def _bound(path: Path, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MeasurementError(f"{path}: le={text!r} is no bound of a bucket") from None


def _count(path: Path, sample: Sample) -> float:
    """Return what a counter says; raises MeasurementError for what none can."""
    if not 0 <= sample.value <= MOST:
        raise MeasurementError(f"{path}: {sample.name} {sample.value:g} is no count of 0 to {MOST:g}")
    return sample.value


def _run(after: Scrape, before: Scrape | None) -> MeasuredRun:
    counters = _between(after.path, after.counters, before.counters if before else {})
    ends = _between(after.path, after.ends, before.ends if before else {})
    buckets = {
        name: tuple(sorted(_between(after.path, bounds, before.buckets.get(name, {}) if before else {}).items()))
        for name, bounds in after.buckets.items()
    }
    completed = int(sum(count for reason, count in ends.items() if reason not in BAD_ENDS))
    metrics, kept, notes = _latencies(counters, buckets)
    gauges = [one.gauges for one in (before, after) if one is not None]
    metrics |= _server(counters, gauges)
    notes += [SERVER_SIDE, *_about_gauges(metrics)]
    return MeasuredRun(
        file=after.path,
        format=NAME,
        place=f"since {before.path.name}" if before else "",
        tool="vLLM /metrics",
        model=after.model,
        load=MeasuredLoad(),
        completed=completed,
        failed=int(sum(ends.get(reason, 0.0) for reason in BAD_ENDS)),
        input_tokens_mean=_mean(counters, HISTOGRAMS["prompt"]),
        output_tokens_mean=_mean(counters, HISTOGRAMS["output"]),
        metrics=metrics,
        notes=tuple(notes if before else [SINCE_START, *notes]),
        buckets=kept,
    )


Key = TypeVar("Key", str, float)


def _between(path: Path, after: Mapping[Key, float], before: Mapping[Key, float]) -> dict[Key, float]:
    """Return after minus before; a counter that fell is a server that started again, or files in the wrong order."""
    for name, value in after.items():
        if value < before.get(name, 0.0):
            raise MeasurementError(
                f"{path}: {name} is {value:g}, but {before[name]:g} in the scrape before: "
                "the server started again, or the scrapes are in the wrong order"
            )
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _mean(counters: Mapping[str, float], names: Sequence[str]) -> float | None:
    for name in names:
        if counters.get(f"{name}_count"):
            return counters.get(f"{name}_sum", 0.0) / counters[f"{name}_count"]
    return None


def _latencies(
    counters: Mapping[str, float], buckets: Mapping[str, Buckets]
) -> tuple[dict[str, float], dict[str, Buckets], list[str]]:
    found: dict[str, float] = {}
    kept: dict[str, Buckets] = {}
    ranges = []
    for metric in ("ttft", "tpot", "itl", "e2e", "queue"):
        if (mean := _mean(counters, HISTOGRAMS[metric])) is not None:
            found[f"{metric}_mean_s"] = mean
        histogram = next((buckets[name] for name in HISTOGRAMS[metric] if name in buckets), ())
        if not histogram or not histogram[-1][1]:
            continue
        kept[metric] = histogram
        ranges += [
            f"{metric} p{share * 100:g} {between[0]:g} to {between[1]:g} s"
            for share in (0.5, 0.99)
            if (between := range_of(histogram, share)) is not None
        ]
    return found, kept, ["only the buckets of percentiles are known: " + ", ".join(ranges)] if ranges else []


def _server(counters: Mapping[str, float], gauges: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for queries, hits in zip(QUERIES, HITS, strict=True):
        if counters.get(queries):
            found.setdefault("prefix_hit_rate", counters.get(hits, 0.0) / counters[queries])
    if "prefix_hit_rate" not in found and gauges[-1].get(HIT_GAUGE, -1.0) >= 0:
        found["prefix_hit_rate"] = gauges[-1][HIT_GAUGE]
    usages = [one[name] for one in gauges for name in USAGE if name in one]
    if usages:
        found["kv_usage_peak"] = max(usages)
    running = [one["num_requests_running"] for one in gauges if "num_requests_running" in one]
    if running:
        found["running_peak"] = max(running)
    if "num_preemptions" in counters:
        found["preemptions"] = counters["num_preemptions"]
    return found


def _about_gauges(metrics: Mapping[str, float]) -> list[str]:
    if "kv_usage_peak" not in metrics and "running_peak" not in metrics:
        return []
    return ["KV usage and running requests are of the moments of scraping: the peak between may be higher"]
