"""`sglang.bench_serving --output-file`: one run a line, statistics in milliseconds, `Infinity` as a bare token.

Its E2E ends with the end of the stream. With `--output-details` E2E and TPOT are computed up to the last token, as
everywhere here; without, they stay as stated, with a note.
"""

from pathlib import Path
from typing import Any

from calibrate.measured.bench_arrays import mean_of, rates_in, request_rate, requests_of, stated_ms
from calibrate.measured.fields import Fields
from calibrate.measured.run import MeasuredLoad, MeasuredRun
from calibrate.measured.statistics import differences, metrics_of

NAME = "sglang-bench"
NAMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}
_SETTINGS = (
    "tag",
    "backend",
    "dataset_name",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "concurrency",
)
_STREAM_END = "E2E and TPOT end with the end of the stream, which comes after the last token"


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is one result of this tool."""
    return "mean_e2e_latency_ms" in value or ("total_throughput" in value and "request_throughput" in value)


def read(file: Path, place: str, value: dict[str, Any]) -> MeasuredRun:
    """Return one line as a load point."""
    fields = Fields(file, place, value)
    requests, notes = requests_of(fields)
    metrics = stated_ms(fields, NAMES)
    if requests and any(one.itls_s for one in requests):
        ours = metrics_of(requests)
        notes += differences(ours, {key: one for key, one in metrics.items() if key.startswith(("ttft", "itl"))})
        if "e2e_mean_s" in metrics and "e2e_mean_s" in ours:
            notes.append(
                f"E2E and TPOT end with the last token (mean {ours['e2e_mean_s']:.4g} s), "
                f"its own summary with the end of the stream ({metrics['e2e_mean_s']:.4g} s)"
            )
        metrics |= ours
    elif "e2e_mean_s" in metrics:
        notes.append(_STREAM_END)
    completed = fields.whole("completed")
    if completed == 0:
        metrics, notes = {}, [*notes, "no request completed: its zeros are no measurements"]
    inputs, outputs = fields.number("total_input_tokens"), fields.number("total_output_tokens")
    duration_s = fields.seconds("duration")
    hit = _hit_rate(fields.inner("cache_report"))
    server = fields.inner("server_info")
    version = server.text("version")
    return MeasuredRun(
        file=file,
        format=NAME,
        place=place,
        tool=f"sglang.bench_serving{f' (server {version})' if version else ''}",
        model=fields.text("model_id", "model") or server.text("served_model_name", "model_path"),
        load=MeasuredLoad(
            concurrency=fields.whole("max_concurrency"),
            rate_per_s=request_rate(fields),
            requests=fields.whole("num_prompts") or (len(requests) or completed),
        ),
        duration_s=duration_s,
        completed=completed,
        failed=sum(one.failed for one in requests) if requests else None,
        input_tokens_mean=mean_of(inputs, completed),
        output_tokens_mean=mean_of(outputs, completed),
        metrics=metrics | rates_in(fields, duration_s, completed, inputs, outputs) | hit,
        requests=tuple(requests),
        notes=(*notes, *_arrivals(fields)),
        settings={key: str(value[key]) for key in _SETTINGS if value.get(key) is not None},
    )


def _arrivals(fields: Fields) -> list[str]:
    return ["requests were sent at the times of a trace"] if fields.values.get("request_rate") == "trace" else []


def _hit_rate(report: Fields) -> dict[str, float]:
    """Return the share of prompt tokens that a `--cache-report` says were cached."""
    prompt, cached = report.number("total_prompt_tokens"), report.number("total_cached_tokens")
    if prompt and cached is not None:
        return {"prefix_hit_rate": cached / prompt}
    percent = report.number("cache_hit_rate_pct")
    return {} if percent is None else {"prefix_hit_rate": percent / 100}
