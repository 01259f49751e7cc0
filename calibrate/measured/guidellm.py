"""GuideLLM's JSON report, `metadata.version` 1 and 2: `request_latency` in seconds, the rest in milliseconds.

Its `time_per_output_token_ms` includes the first token and is not read; its `inter_token_latency_ms` is TPOT, one
value a request. Percentiles are order statistics weighted by tokens; where every request is listed, they are computed
here instead. Rates of its summary are means over moments, so totals over the duration are taken.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrate.measured.fields import Fields
from calibrate.measured.from_requests import run_from_requests
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun
from calibrate.measured.statistics import rates_of

NAME = "guidellm"
MS = 1e-3
METRICS = {
    "ttft": ("time_to_first_token_ms", MS),
    "tpot": ("inter_token_latency_ms", MS),
    "e2e": ("request_latency", 1.0),
}
STATISTICS = {"mean": "mean", "std": "std_dev", "p50": "median"}
PERCENTILES = ("p75", "p90", "p95", "p99")
TPOT_NOTE = "TPOT is its inter_token_latency; its own time_per_output_token includes the first token"
ORDER_NOTE = "percentiles are GuideLLM's order statistics, TPOT weighted by tokens"
END_NOTE = "E2E ends with the end of the stream"


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is a report of this tool."""
    return isinstance(value.get("benchmarks"), list) and ("metadata" in value or "args" in value or "config" in value)


def read(file: Path, place: str, value: dict[str, Any]) -> Iterator[MeasuredRun]:
    """Yield each benchmark of a report."""
    report = Fields(file, place, value)
    version = report.inner("metadata").text("guidellm_version")
    for number, one in enumerate(report.items("benchmarks"), 1):
        where = f"{place} benchmark {number}".strip()
        if not isinstance(one, dict):
            raise report.wrong("benchmarks", f"holds something else than an object at {number}")
        yield _run(Fields(file, where, one), report, f"GuideLLM {version}" if version else "GuideLLM")


def _run(fields: Fields, report: Fields, tool: str) -> MeasuredRun:
    config = fields.inner("config" if "config" in fields.values else "args")
    metrics = fields.inner("metrics")
    totals = metrics.inner("request_totals")
    if not totals.values:
        totals = fields.inner("run_stats").inner("requests_made")
    completed, failed = totals.whole("successful"), totals.whole("errored")
    cut = totals.whole("incomplete")
    notes = [TPOT_NOTE] + ([f"{cut} requests were cut off at the end of the run"] if cut else [])
    strategy = config.inner("strategy")
    requests = list(_requests(fields.inner("requests")))
    inputs, outputs = (_successful(metrics, key) for key in ("prompt_token_count", "output_token_count"))
    duration_s = _duration_s(fields)
    run = MeasuredRun(
        file=fields.file,
        format=NAME,
        place=fields.place,
        tool=tool,
        model=_model(config, report),
        load=load_of(strategy, len(requests) or completed, sessions=any(one.turn for one in requests)),
        duration_s=duration_s,
        completed=completed,
        failed=failed,
        input_tokens_mean=inputs.number("mean") if completed else None,
        output_tokens_mean=outputs.number("mean") if completed else None,
        metrics=_stated(metrics) if completed else {},
        settings={"strategy": strategy.text("type_", "kind") or ""},
    )
    done = sum(not one.failed for one in requests)
    if done and done == completed:
        notes.append("percentiles are computed from its requests; E2E and TPOT end with the last token")
        stated = {key: one for key, one in run.metrics.items() if key == "itl_mean_s"}  # exact: weighted by gaps
        return run_from_requests(replace(run, metrics=stated, notes=tuple(notes)), requests)
    if done:
        notes.append(f"only {done} of {completed} requests are listed, so its own summary is taken")
    rates = rates_of(duration_s, completed, inputs.number("total_sum"), outputs.number("total_sum"))
    notes += [ORDER_NOTE, END_NOTE]
    return replace(run, metrics={**run.metrics, **rates}, requests=tuple(requests), notes=tuple(notes))


def load_of(strategy: Fields, requests: int | None, *, sessions: bool) -> MeasuredLoad:
    """Return how the client sent, by the kind of strategy."""
    kind = strategy.text("type_", "kind") or ""
    concurrency = strategy.whole("streams", "max_concurrency")
    rate = strategy.number("rate")
    if kind == "synchronous":
        concurrency = 1
    if kind == "throughput":
        rate = math.inf
    burstiness = {"constant": math.inf, "poisson": 1.0}.get(kind)
    return MeasuredLoad(concurrency, rate, burstiness, requests, sessions)


def _stated(metrics: Fields) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric, (key, unit_s) in METRICS.items():
        values = _successful(metrics, key)
        if not values.number("count"):
            continue
        percentiles = values.inner("percentiles")
        for statistic, name in STATISTICS.items():
            if (value := values.seconds(name, unit_s=unit_s)) is not None:
                found[f"{metric}_{statistic}_s"] = value
        for name in PERCENTILES:
            if (value := percentiles.seconds(name, unit_s=unit_s)) is not None:
                found[f"{metric}_{name}_s"] = value
    if "tpot_mean_s" in found:
        found["itl_mean_s"] = found["tpot_mean_s"]  # weighted by gaps, so the mean gap
    return found


def _successful(metrics: Fields, key: str) -> Fields:
    return metrics.inner(key).inner("successful")


def _requests(requests: Fields) -> Iterator[MeasuredRequest]:
    rows = [(row, kind == "errored") for kind in ("successful", "errored") for row in requests.items(kind)]
    fields = [
        (Fields(requests.file, f"{requests.place} {number}", row if isinstance(row, dict) else {}), failed)
        for number, (row, failed) in enumerate(rows, 1)
    ]
    first_s = min((at for one, _ in fields if (at := _start_s(one)) is not None), default=0.0)
    for one, failed in fields:
        start_s = _start_s(one)
        yield _request(one, None if start_s is None else start_s - first_s, failed=failed)


def _start_s(fields: Fields) -> float | None:
    return fields.number("request_start_time", "start_time")  # seconds since 1970


def _request(fields: Fields, sent_s: float | None, *, failed: bool) -> MeasuredRequest:
    info = fields.inner("info")
    output = fields.whole("output_tokens") or 0
    ttft_s, tpot_s = (
        fields.seconds(f"{name}_ms", unit_s=MS) for name in ("time_to_first_token", "inter_token_latency")
    )
    e2e_s = fields.seconds("request_latency")
    if ttft_s is not None and tpot_s is not None and output > 1:
        e2e_s = ttft_s + tpot_s * (output - 1)
    return MeasuredRequest(
        prompt_tokens=fields.whole("prompt_tokens") or 0,
        output_tokens=output,
        sent_s=sent_s,
        ttft_s=None if failed else ttft_s,
        e2e_s=None if failed else e2e_s,
        session=info.text("conversation_id"),
        turn=info.whole("turn_index"),
        hit_tokens=fields.whole("cached_tokens"),
        failed=failed,
    )


def _duration_s(fields: Fields) -> float | None:
    begin_s, end_s = fields.number("start_time"), fields.number("end_time")
    if begin_s is not None and end_s is not None and end_s > begin_s:
        return end_s - begin_s
    return fields.seconds("duration")


def _model(config: Fields, report: Fields) -> str | None:
    return (
        config.inner("backend").text("model")
        or report.inner("args").text("model")
        or report.inner("config").inner("spec").inner("backend").text("model")
    )
