"""The /metrics page of a vLLM 0.33 that had served the run, as scraped at its end.

All populations are in it, for a server knows no clients. Counters and histograms start at 0 with the run, so the page
stands for the difference of two scrapes of a real server. TTFT and E2E count from the client's send, as tokenisation
is within the server's own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.engine.record import Outcome, Run, TurnRecord
from sim.export.facts import TOOL, Facts
from sim.export.vllm_families import FAMILIES, Family, token_buckets

Labels = Mapping[str, str]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Page:
    """What the families draw from."""

    facts: Facts
    done: Sequence[TurnRecord]
    first: Sequence[TurnRecord]  # that have their first token
    admitted: Sequence[TurnRecord]
    samples: dict[str, list[tuple[Labels, float]]] = field(default_factory=dict)
    observed: dict[str, Values] = field(default_factory=dict)


def scrape(run: Run, facts: Facts) -> str:
    """Return the page."""
    records = run.records
    admitted = [record for record in records if record.scheduled_s == record.scheduled_s]  # not NaN
    page = _Page(
        facts,
        done=[record for record in records if record.outcome is Outcome.COMPLETED],
        first=[record for record in records if record.token_steps],
        admitted=admitted,
    )
    page.samples.update(_gauges(run, page) | _counters(records, page))
    page.observed.update(_observed(page))
    words = ", ".join(f"{name} {value}" for name, value in facts.source.items() if name != "simulated_by")
    # At the end, for readers tell such a page by its first line.
    lines = [*_lines(page), f"# Not measured: simulated by {TOOL}; {words}"]
    return "\n".join(lines) + "\n"


def _gauges(run: Run, page: _Page) -> dict[str, list[tuple[Labels, float]]]:
    left = [record for record in run.records if record.outcome is Outcome.UNFINISHED]
    running = sum(1 for record in left if record.scheduled_s == record.scheduled_s)
    waiting = sum(1 for record in left if record.queued_s == record.queued_s) - running
    logs = [record.steps for record in run.records if record.steps is not None]
    usable = max(run.num_gpu_blocks - 1, 1)  # block 0 stands for none
    used = logs[0].blocks_in_use[-1] if left and logs and logs[0].blocks_in_use else 0
    facts = page.facts
    config = {
        "block_size": str(facts.block_size),
        "cache_dtype": facts.kv_cache_dtype,
        "enable_prefix_caching": str(facts.enable_prefix_caching),
        "gpu_memory_utilization": f"{facts.gpu_memory_utilization:g}",
        "num_gpu_blocks": str(run.num_gpu_blocks),
    }
    states = {"awake": 1.0, "weights_offloaded": 0.0, "discard_all": 0.0}
    return {
        "num_requests_running": [({}, running)],
        "num_requests_waiting": [({}, waiting)],
        "num_requests_waiting_by_reason": _by("reason", {"capacity": waiting, "deferred": 0}),
        "engine_sleep_state": _by("sleep_state", states),
        "kv_cache_usage_perc": [({}, used / usable)],
        "cache_config_info": [(config, 1.0)],
    }


def _counters(records: Sequence[TurnRecord], page: _Page) -> dict[str, list[tuple[Labels, float]]]:
    queried, hit = _sum(page.admitted, "prompt_tokens"), _sum(page.admitted, "hit_tokens")
    begun, cached = _sum(page.first, "prompt_tokens"), _sum(page.first, "hit_tokens")
    tiers = {"device": cached, "host": 0.0, "p2p": 0.0, "disk": 0.0, "external_unspecified": 0.0}
    sources = {"local_compute": begun - cached, "local_cache_hit": cached, "external_kv_transfer": 0.0}
    aborted = sum(1 for record in records if record.outcome is Outcome.ABORTED)
    reasons = {"stop": 0, "length": len(page.done), "abort": aborted, "error": 0, "repetition": 0}
    nothing = ("external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries", "mm_cache_hits")
    return {
        "prefix_cache_queries_total": [({}, queried)],
        "prefix_cache_hits_total": [({}, hit)],
        **{f"{name}_total": [({}, 0.0)] for name in nothing},
        "num_preemptions_total": [({}, _sum(records, "preemptions"))],
        "prompt_tokens_total": [({}, begun)],
        "prompt_tokens_by_source_total": _by("source", sources),
        "prompt_tokens_cached_total": [({}, cached)],
        "prompt_tokens_cached_by_source_total": _by("source", tiers),
        "generation_tokens_total": [({}, sum(record.received_tokens for record in records))],
        "request_success_total": _by("finished_reason", reasons),
        "admission_rejections_total": _by("reason", {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}),
    }


def _observed(page: _Page) -> dict[str, Values]:
    done = page.done

    def of(value: Callable[[TurnRecord], float], records: Iterable[TurnRecord] = done) -> Values:
        return np.array([value(record) for record in records], float)

    tokens = of(lambda one: one.output_tokens)
    gaps = [np.diff(record.token_times_s) for record in page.first]
    several = [record for record in done if record.output_tokens > 1]
    return {
        "request_prompt_tokens": of(lambda one: one.prompt_tokens),
        "request_generation_tokens": tokens,
        "request_max_num_generation_tokens": tokens,
        "request_params_n": np.ones(len(done)),
        "request_params_max_tokens": tokens,
        "time_to_first_token_seconds": of(lambda one: one.first_seen_s - one.arrival_s, page.first),
        "inter_token_latency_seconds": np.concatenate([np.empty(0), *gaps]),
        "request_time_per_output_token_seconds": of(
            lambda one: (one.last_token_s - one.first_token_s) / (one.output_tokens - 1), several
        ),
        "e2e_request_latency_seconds": of(lambda one: one.e2e_s),
        "request_queue_time_seconds": of(lambda one: one.scheduled_s - one.queued_s),
        "request_inference_time_seconds": of(lambda one: one.last_token_s - one.scheduled_s),
        "request_prefill_time_seconds": of(lambda one: one.first_token_s - one.scheduled_s),
        "request_decode_time_seconds": of(lambda one: one.last_token_s - one.first_token_s),
        "request_num_preemptions": of(lambda one: one.preemptions),
        "request_prefill_kv_computed_tokens": of(lambda one: one.prompt_tokens - one.hit_tokens),
    }


def _lines(page: _Page) -> Iterator[str]:
    for family in FAMILIES:
        name = f"vllm:{family.name}"
        yield f"# HELP {name} {family.help}"
        yield f"# TYPE {name} {family.kind}"
        if family.kind == "histogram":
            yield from _histogram(name, family, page)
            continue
        for labels, value in page.samples[family.name]:
            yield f"{name}{_labels(page, family, labels)} {_number(value)}"


def _histogram(name: str, family: Family, page: _Page) -> Iterator[str]:
    bounds = family.buckets or token_buckets(page.facts.max_model_len)
    values = np.sort(page.observed[family.name])
    counts = np.searchsorted(values, bounds, side="right")
    for bound, count in zip(bounds, counts.tolist(), strict=True):
        yield f"{name}_bucket{_labels(page, family, {'le': _number(bound)})} {_number(count)}"
    yield f"{name}_bucket{_labels(page, family, {'le': '+Inf'})} {_number(len(values))}"
    yield f"{name}_count{_labels(page, family, {})} {_number(len(values))}"
    yield f"{name}_sum{_labels(page, family, {})} {_number(float(values.sum()))}"


def _labels(page: _Page, family: Family, own: Labels) -> str:
    labels = dict(own)
    if family.name != "cache_config_info":
        labels["model_name"] = page.facts.model
    if family.name != "admission_rejections_total":
        labels["engine"] = "0"
    return "{" + ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels)) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return repr(float(value))


def _by(label: str, values: Mapping[str, float]) -> list[tuple[Labels, float]]:
    return [({label: key}, value) for key, value in values.items()]


def _sum(records: Iterable[TurnRecord], name: str) -> float:
    return float(sum(getattr(record, name) for record in records))
