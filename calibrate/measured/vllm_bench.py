"""`vllm bench serve --save-result`: statistics in milliseconds, arrays in seconds, keys that came and went by version.

With `--save-detailed` the metrics are computed from the requests. `max_concurrent_requests` counts requests that
touched the same second, which is no concurrency, and is not read.
"""

import math
from collections.abc import Sized
from pathlib import Path
from typing import Any

from calibrate.measured.fields import Fields, scalars
from calibrate.measured.run import METRICS, MeasuredLoad, MeasuredRequest, MeasuredRun
from calibrate.measured.statistics import differences, metrics_of, rates_of, spread

NAME = "vllm-bench"
MS = 1e-3
STATISTICS = {"mean": "mean", "std": "std", "p50": "p50", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99"}
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
    requests, notes = _requests(fields)
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
        input_tokens_mean=_mean(inputs, completed),
        output_tokens_mean=_mean(outputs, completed),
        metrics=metrics | _rates(fields, duration_s, completed, inputs, outputs),
        requests=tuple(requests),
        notes=tuple(notes),
        settings=_settings(fields),
    )


def stated_ms(fields: Fields, names: dict[str, str]) -> dict[str, float]:
    """Return `mean_ttft_ms`, `p99_ttft_ms` and their like in seconds, under this table's names."""
    found = {}
    for metric in METRICS:
        for statistic in STATISTICS:
            keys = [f"{statistic}_{names[metric]}_ms"]
            if statistic == "p50":
                keys += [f"median_{names[metric]}_ms", f"p50.0_{names[metric]}_ms"]
            value = fields.seconds(*keys, unit_s=MS)
            if value is not None:
                found[f"{metric}_{statistic}_s"] = value
    return found


def request_rate(fields: Fields) -> float | None:
    """Return the rate asked for: a number, or infinite where the tool sent all at once."""
    value = fields.values.get("request_rate")
    if isinstance(value, str):
        if value.lower().lstrip("+") in {"inf", "infinity"}:
            return math.inf
        try:
            value = float(value)
        except ValueError:
            return None  # `trace`
    if isinstance(value, float) and math.isinf(value):
        return math.inf
    return Fields(fields.file, fields.place, {"request_rate": value}).number("request_rate")


def _load(fields: Fields) -> MeasuredLoad:
    return MeasuredLoad(
        concurrency=fields.whole("max_concurrency"),
        rate_per_s=request_rate(fields),
        burstiness=_burstiness(fields),
        requests=fields.whole("num_prompts"),
    )


def _burstiness(fields: Fields) -> float | None:
    value = fields.values.get("burstiness")
    if value == "inf" or (isinstance(value, float) and math.isinf(value)):
        return math.inf
    return fields.number("burstiness")


def _requests(fields: Fields) -> tuple[list[MeasuredRequest], list[str]]:
    """Return the requests of a detailed result, and what is to say about them."""
    ttfts, itls = fields.numbers("ttfts"), fields.number_lists("itls")
    inputs, outputs = fields.counts("input_lens"), fields.counts("output_lens")
    if not ttfts or not outputs:
        return [], []
    arrays: dict[str, Sized] = {"ttfts": ttfts, "itls": itls, "input_lens": inputs, "output_lens": outputs}
    if len({len(array) for array in arrays.values() if array}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items() if array)
        raise fields.wrong("num_prompts", f"requests, but its arrays are of different lengths: {lengths}")
    latencies, starts = fields.numbers("latencies"), fields.numbers("start_times")
    errors = fields.items("errors")
    first_s = min((one for one in starts if one is not None), default=0.0)
    requests = []
    for at, ttft_s in enumerate(ttfts):
        gaps = itls[at] if itls else ()
        failed = (at < len(errors) and bool(errors[at])) or not (outputs[at] or ttft_s)
        e2e_s = latencies[at] if len(latencies) == len(ttfts) else None
        if e2e_s is None and itls and ttft_s is not None:
            e2e_s = ttft_s + sum(gaps)
        start_s = starts[at] if len(starts) == len(ttfts) else None
        requests.append(
            MeasuredRequest(
                prompt_tokens=inputs[at] if inputs else 0,
                output_tokens=outputs[at],
                sent_s=None if start_s is None else start_s - first_s,
                ttft_s=None if failed else ttft_s,
                e2e_s=None if failed else e2e_s,
                itls_s=() if failed else gaps,
                failed=failed,
            )
        )
    return requests, _about(requests)


def _about(requests: list[MeasuredRequest]) -> list[str]:
    chunked = [one for one in requests if one.itls_s and one.output_tokens > len(one.itls_s) + 1]
    if not chunked:
        return []
    return [f"ITL is between chunks, not tokens: {len(chunked)} of {len(requests)} requests got several tokens a chunk"]


def _rates(
    fields: Fields, duration_s: float | None, completed: int | None, inputs: float | None, outputs: float | None
) -> dict[str, float]:
    stated = {
        "requests_per_s": fields.number("request_throughput"),
        "input_tokens_per_s": fields.number("input_throughput"),
        "output_tokens_per_s": fields.number("output_throughput"),
        "total_tokens_per_s": fields.number("total_token_throughput", "total_throughput"),
    }
    return rates_of(duration_s, completed, inputs, outputs) | {
        name: value for name, value in stated.items() if value is not None
    }


def _settings(fields: Fields) -> dict[str, str]:
    """Return the `--metadata` of the run, and what says how the client was set."""
    rest = scalars(fields.values, _OWN)
    rest = {key: value for key, value in rest.items() if not key.endswith("_ms")}
    for key in ("backend", "endpoint_type", "tokenizer_id", "label", "date"):
        if (value := fields.text(key)) is not None:
            rest[key] = value
    return rest


def _mean(total: float | None, completed: int | None) -> float | None:
    return total / completed if total is not None and completed else None


def _rest(prompts: int | None, completed: int) -> int | None:
    return max(prompts - completed, 0) if prompts is not None else None
