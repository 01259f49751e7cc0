"""What vLLM 0.33 exposes at /metrics: names, types, help texts and buckets, in its order.

Left out is what a simulation does not know: FLOPs and bytes (`estimated_*`), tokens by step (`iteration_tokens_total`
as a histogram), sampled lives of blocks (`kv_block_*`) and the times at which series were created (`*_created`).
"""

from collections.abc import Sequence
from typing import NamedTuple

INFINITE = float("inf")
LATENCY = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
TOKEN = (*(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CHOICES = (1.0, 2.0, 5.0, 10.0, 20.0)


class Family(NamedTuple):
    """One family; a histogram without buckets here has those of `token_buckets`."""

    name: str
    kind: str
    help: str
    buckets: Sequence[float] = ()


def token_buckets(max_model_len: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, ... up to the longest context."""
    found: list[float] = []
    for digits in range(len(str(max_model_len))):
        found += [float(step * 10**digits) for step in (1, 2, 5) if step * 10**digits <= max_model_len]
    return tuple(found)


FAMILIES = (
    Family("num_requests_running", "gauge", "Number of requests in model execution batches."),
    Family("num_requests_waiting", "gauge", "Number of requests waiting to be processed."),
    Family(
        "num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; "
        "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all "
        "reasons equals vllm:num_requests_waiting.",
    ),
    Family(
        "engine_sleep_state",
        "gauge",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = "
        "1 means sleep level 1; discard_all = 1 means sleep level 2.",
    ),
    Family("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage."),
    Family("prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens."),
    Family("prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens."),
    Family(
        "external_prefix_cache_queries_total",
        "counter",
        "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried "
        "tokens.",
    ),
    Family(
        "external_prefix_cache_hits_total",
        "counter",
        "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached "
        "tokens.",
    ),
    Family("mm_cache_queries_total", "counter", "Multi-modal cache queries, in terms of number of queried items."),
    Family("mm_cache_hits_total", "counter", "Multi-modal cache hits, in terms of number of cached items."),
    Family("num_preemptions_total", "counter", "Cumulative number of preemption from the engine."),
    Family("prompt_tokens_total", "counter", "Number of prefill tokens processed."),
    Family("prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source."),
    Family("prompt_tokens_cached_total", "counter", "Number of cached prompt tokens (local + external)."),
    Family(
        "prompt_tokens_cached_by_source_total",
        "counter",
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), "
        "disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to "
        "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
    ),
    Family("generation_tokens_total", "counter", "Number of generation tokens processed."),
    Family("request_success_total", "counter", "Count of successfully processed requests."),
    Family(
        "admission_rejections_total", "counter", "Number of admission attempts rejected by a queue limit, by reason."
    ),
    Family("request_prompt_tokens", "histogram", "Number of prefill tokens processed."),
    Family("request_generation_tokens", "histogram", "Number of generation tokens processed."),
    Family(
        "request_max_num_generation_tokens",
        "histogram",
        "Histogram of maximum number of requested generation tokens.",
    ),
    Family("request_params_n", "histogram", "Histogram of the n request parameter.", CHOICES),
    Family("request_params_max_tokens", "histogram", "Histogram of the max_tokens request parameter."),
    Family("time_to_first_token_seconds", "histogram", "Histogram of time to first token in seconds.", FIRST_TOKEN),
    Family("inter_token_latency_seconds", "histogram", "Histogram of inter-token latency in seconds.", TOKEN),
    Family(
        "request_time_per_output_token_seconds",
        "histogram",
        "Histogram of time_per_output_token_seconds per request.",
        TOKEN,
    ),
    Family("e2e_request_latency_seconds", "histogram", "Histogram of e2e request latency in seconds.", LATENCY),
    Family("request_queue_time_seconds", "histogram", "Histogram of time spent in WAITING phase for request.", LATENCY),
    Family(
        "request_inference_time_seconds", "histogram", "Histogram of time spent in RUNNING phase for request.", LATENCY
    ),
    Family(
        "request_prefill_time_seconds", "histogram", "Histogram of time spent in PREFILL phase for request.", LATENCY
    ),
    Family("request_decode_time_seconds", "histogram", "Histogram of time spent in DECODE phase for request.", LATENCY),
    Family(
        "request_num_preemptions",
        "histogram",
        "Histogram of the number of times a request was preempted.",
        PREEMPTIONS,
    ),
    Family(
        "request_prefill_kv_computed_tokens",
        "histogram",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
    ),
    Family("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig"),
)
