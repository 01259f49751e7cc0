"""`vllm bench serve --save-result`: statistics in milliseconds, arrays in seconds, keys that came and went by version.

With `--save-detailed` the metrics are computed from the requests. `max_concurrent_requests` counts requests that
touched the same second, which is no concurrency, and is not read.
"""

import math
from pathlib import Path
from typing import Any

from calibrate.measured.bench_arrays import mean_of, rates_in, request_rate, requests_of, stated_ms
from calibrate.measured.fields import Fields, scalars
from calibrate.measured.run import MeasuredLoad, MeasuredRun
from calibrate.measured.statistics import differences, metrics_of, spread

NAME = "vllm-bench"
NAMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
_OWN = frozenset(
    [
        "date",
        "endpoint_type",
        "backend",
        "label",
        "model_id",
        "tokenizer_id",
        "num_prompts",
        "request_rate",
        "burstiness",
        "max_concurrency",
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "request_goodput",
        "request_goodput:",
        "output_throughput",
        "total_token_throughput",
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "queue_times",
        "generated_texts",
        "errors",
        "max_output_tokens_per_s",
        "max_concurrent_requests",
        "rtfx",
        "best_of",
        "use_beam_search",
        "server_queue_times",
        "server_ttfts",
        "input_throughput",
    ]
)


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is one result of this tool."""
    return ("model_id" in value or "total_token_throughput" in value) and (
        "request_throughput" in value or "total_token_throughput" in value
    )


def read(file: Path, place: str, value: dict[str, Any]) -> MeasuredRun:
    """Return one result as a load point."""
    fields = Fields(file, place, value)
    requests, notes = requests_of(fields)
    stated = stated_ms(fields, NAMES)
    metrics = dict(stated)
    if requests:
        ours = metrics_of(requests)
        notes += differences(ours, stated)
        metrics |= ours
    completed, failed = fields.whole("completed"), fields.whole("failed")
    prompts = fields.whole("num_prompts")
    if failed is None and completed is not None:
        failed = sum(one.failed for one in requests) if requests else _rest(prompts, completed)
    if "e2e_mean_s" not in metrics and not requests and not failed:
        metrics |= spread("e2e", [one for one in fields.numbers("latencies") if one is not None])
    if requests and completed is not None and completed != sum(not one.failed for one in requests):
        seen = sum(not one.failed for one in requests)
        notes.append(f"completed says {completed}, but {seen} of its {len(requests)} requests have tokens and no error")
    if label := fields.text("label"):
        notes.append(f"labelled: {label}")
    if completed == 0:
        metrics, notes = {}, [*notes, "no request completed: its zeros are no measurements"]
    inputs, outputs = fields.number("total_input_tokens"), fields.number("total_output_tokens")
    duration_s = fields.seconds("duration")
    return MeasuredRun(
        file=file,
        format=NAME,
        place=place,
        tool=f"vllm bench serve ({fields.text('backend', 'endpoint_type') or 'backend not stated'})",
        model=fields.text("model_id"),
        load=_load(fields),
        duration_s=duration_s,
        completed=completed,
        failed=failed,
        input_tokens_mean=mean_of(inputs, completed),
        output_tokens_mean=mean_of(outputs, completed),
        metrics=metrics | rates_in(fields, duration_s, completed, inputs, outputs),
        requests=tuple(requests),
        notes=tuple(notes),
        settings=_settings(fields),
    )


def _load(fields: Fields) -> MeasuredLoad:
    prompts = fields.whole("num_prompts")
    return MeasuredLoad(
        concurrency=fields.whole("max_concurrency"),
        rate_per_s=request_rate(fields),
        burstiness=_burstiness(fields),
        requests=prompts,
        sessions=_talks(fields, prompts),
    )


def _talks(fields: Fields, prompts: int | None) -> bool:
    """Whether `--metadata sessions=N` says that requests are turns of fewer sessions: no key of the tool does."""
    said = fields.values.get("sessions")
    return isinstance(said, str) and said.isdecimal() and 0 < int(said) < (prompts or 0)


def _burstiness(fields: Fields) -> float | None:
    value = fields.values.get("burstiness")
    if value == "inf" or (isinstance(value, float) and math.isinf(value)):
        return math.inf
    return fields.number("burstiness")


def _settings(fields: Fields) -> dict[str, str]:
    """Return the `--metadata` of the run, and what says how the client was set."""
    rest = scalars(fields.values, _OWN)
    rest = {key: value for key, value in rest.items() if not key.endswith("_ms")}
    for key in ("backend", "endpoint_type", "tokenizer_id", "label", "date"):
        if (value := fields.text(key)) is not None:
            rest[key] = value
    return rest


def _rest(prompts: int | None, completed: int) -> int | None:
    return max(prompts - completed, 0) if prompts is not None else None
