"""AIPerf's `profile_export.jsonl`: one request a line, times since 1970 in nanoseconds, metrics with their unit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrate.measured.aiperf_names import TPOT_NOTE, unit_s
from calibrate.measured.fields import Fields
from calibrate.measured.from_requests import run_from_requests
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun

NAME = "aiperf-requests"


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is one request of this tool."""
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata


def read(file: Path, rows: Sequence[tuple[str, dict[str, Any]]]) -> MeasuredRun:
    """Return the requests of a file as a load point."""
    fields = [Fields(file, place, row) for place, row in rows]
    profiled = [one for one in fields if one.inner("metadata").text("benchmark_phase") != "warmup"]
    first_ns = min((_start_ns(one) for one in profiled), default=0)
    requests = [_request(one, first_ns) for one in profiled]
    notes = [TPOT_NOTE]
    if len(profiled) < len(fields):
        notes.append(f"{len(fields) - len(profiled)} requests of the warm-up are left out")
    sessions = any(one.turn for one in requests)
    run = MeasuredRun(file, NAME, tool="AIPerf", load=MeasuredLoad(requests=len(requests), sessions=sessions))
    run = run_from_requests(run, requests)
    return replace(run, notes=tuple(notes))


def _start_ns(fields: Fields) -> int:
    value = fields.inner("metadata").values.get("request_start_ns")
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise fields.inner("metadata").wrong("request_start_ns", "is not a time in nanoseconds")
    return value


def _request(fields: Fields, first_ns: int) -> MeasuredRequest:
    metadata, metrics = fields.inner("metadata"), fields.inner("metrics")
    failed = fields.values.get("error") is not None or metadata.values.get("was_cancelled") is True
    gaps = metrics.inner("inter_chunk_latency")
    return MeasuredRequest(
        prompt_tokens=_tokens(metrics, "usage_prompt_tokens", "input_sequence_length") or 0,
        output_tokens=_tokens(metrics, "output_sequence_length", "usage_completion_tokens") or 0,
        sent_s=(_start_ns(fields) - first_ns) * 1e-9,
        ttft_s=None if failed else _seconds(metrics.inner("time_to_first_token")),
        e2e_s=None if failed else _seconds(metrics.inner("request_latency")),
        itls_s=() if failed or not gaps.values else _gaps_s(gaps),
        session=metadata.text("x_correlation_id", "conversation_id"),
        turn=metadata.whole("turn_index"),
        hit_tokens=_tokens(metrics, "usage_prompt_cache_read_tokens"),
        depth=metadata.whole("agent_depth") or 0,
        failed=failed,
    )


def _tokens(metrics: Fields, *names: str) -> int | None:
    return next((value for name in names if (value := metrics.inner(name).whole("value")) is not None), None)


def _seconds(metric: Fields) -> float | None:
    return metric.seconds("value", unit_s=unit_s(metric)) if metric.values else None


def _gaps_s(metric: Fields) -> tuple[float, ...]:
    if not isinstance(metric.values.get("value"), list):
        value = _seconds(metric)
        return () if value is None else (value,)
    return tuple(gap for gap in metric.numbers("value", unit_s=unit_s(metric)) if gap is not None)
