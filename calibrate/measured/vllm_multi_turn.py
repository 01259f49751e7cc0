"""vLLM's multi-turn benchmark, `--stats-json-output`: one object a request, all times in milliseconds.

Its TPOT divides by the tokens after the first chunk; here it is computed as everywhere. `approx_cached_percent` is
history over prompt, not measured, and is not read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrate.measured.fields import Fields
from calibrate.measured.from_requests import run_from_requests
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun

NAME = "vllm-multi-turn"
MS = 1e-3
_NOTES = ("E2E and TPOT end with the end of the stream", "failed requests are not in this file")


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is one request of this tool."""
    return "ttft_ms" in value and "latency_ms" in value and "input_num_tokens" in value


def read(file: Path, place: str, rows: Sequence[dict[str, Any]]) -> MeasuredRun:
    """Return the requests of one run as a load point."""
    fields = [Fields(file, f"{place} item {number}".strip(), row) for number, row in enumerate(rows, 1)]
    starts_s = [one.seconds("start_time_ms", unit_s=MS) for one in fields]
    first_s = min((one for one in starts_s if one is not None), default=0.0)
    requests = [
        _request(one, None if start_s is None else start_s - first_s)
        for one, start_s in zip(fields, starts_s, strict=True)
    ]
    clients = {row.get("client_id") for row in rows if isinstance(row.get("client_id"), int)}
    load = MeasuredLoad(concurrency=len(clients) or None, requests=len(rows), sessions=True)
    return run_from_requests(
        MeasuredRun(file, NAME, place, tool="vllm benchmark_serving_multi_turn", load=load, notes=_NOTES), requests
    )


def _request(fields: Fields, sent_s: float | None) -> MeasuredRequest:
    messages = fields.whole("input_num_turns")  # of both roles: 1, 3, 5
    session = fields.values.get("conversation_id")
    return MeasuredRequest(
        prompt_tokens=fields.whole("input_num_tokens") or 0,
        output_tokens=fields.whole("output_num_tokens") or 0,
        sent_s=sent_s,
        ttft_s=_unless_negative(fields, "ttft_ms"),
        e2e_s=_unless_negative(fields, "latency_ms"),
        session=None if session is None else str(session),
        turn=None if not messages else (messages - 1) // 2,
    )


def _unless_negative(fields: Fields, key: str) -> float | None:
    """Return a time; the tool writes -1 for none."""
    value = fields.real(key)
    return None if value is None or value < 0 else fields.seconds(key, unit_s=MS)
