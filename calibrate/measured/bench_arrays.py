"""What `vllm bench serve` and `sglang.bench_serving` share: statistics in milliseconds, arrays in seconds."""

import math
from typing import Any

from calibrate.measured.fields import Fields
from calibrate.measured.run import METRICS, STATISTICS, MeasuredRequest
from calibrate.measured.statistics import rates_of

MS = 1e-3


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


def requests_of(fields: Fields) -> tuple[list[MeasuredRequest], list[str]]:
    """Return the requests of a detailed result, and what is to say about them."""
    ttfts, itls = fields.numbers("ttfts"), fields.number_lists("itls")
    inputs, outputs = fields.counts("input_lens"), fields.counts("output_lens")
    if not ttfts or not outputs:
        return [], []
    arrays: dict[str, list[Any]] = {"ttfts": ttfts, "itls": itls, "input_lens": inputs, "output_lens": outputs}
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


def rates_in(
    fields: Fields, duration_s: float | None, completed: int | None, inputs: float | None, outputs: float | None
) -> dict[str, float]:
    """Return the rates as stated; those that are not, from totals over the duration."""
    stated = {
        "requests_per_s": fields.number("request_throughput"),
        "input_tokens_per_s": fields.number("input_throughput"),
        "output_tokens_per_s": fields.number("output_throughput"),
        "total_tokens_per_s": fields.number("total_token_throughput", "total_throughput"),
    }
    return rates_of(duration_s, completed, inputs, outputs) | {
        name: value for name, value in stated.items() if value is not None
    }


def mean_of(total: float | None, completed: int | None) -> float | None:
    """Return a mean a request, or None where nothing completed."""
    return total / completed if total is not None and completed else None
