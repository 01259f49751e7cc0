"""cache-pressure's agent-sim: `{summary, records[]}`, one record a step of a session, times in seconds."""

from pathlib import Path
from typing import Any

from calibrate.measured.fields import Fields
from calibrate.measured.from_requests import run_from_requests
from calibrate.measured.run import MeasuredLoad, MeasuredRequest, MeasuredRun

NAME = "agent-sim"


def recognises(value: dict[str, Any]) -> bool:
    """Say whether an object is a result of this tool."""
    records = value.get("records")
    return "summary" in value and isinstance(records, list) and all(_is_record(one) for one in records[:3])


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and "session" in value and "ttft" in value


def read(file: Path, place: str, value: dict[str, Any]) -> MeasuredRun:
    """Return all its records as a load point."""
    records = Fields(file, place, value).items("records")
    requests = [
        _request(Fields(file, f"{place} record {number}".strip(), one if isinstance(one, dict) else {}))
        for number, one in enumerate(records, 1)
    ]
    sessions = len({one.session for one in requests})
    run = MeasuredRun(
        file,
        NAME,
        place,
        tool="cache-pressure agent-sim",
        load=MeasuredLoad(concurrency=sessions or None, requests=len(requests), sessions=True),
        notes=("concurrency is the number of its sessions", "E2E is its wall time of a step"),
        settings={
            str(key): str(one)
            for key, one in (value["summary"] if isinstance(value["summary"], dict) else {}).items()
            if isinstance(one, str | int | float)
        },
    )
    return run_from_requests(run, requests)


def _request(fields: Fields) -> MeasuredRequest:
    prompt = fields.whole("prompt", "prompt_tokens") or 0
    hit = fields.whole("cached", "cached_tokens")
    ttft_s = fields.seconds("ttft", "ttft_s")
    return MeasuredRequest(
        prompt_tokens=prompt,
        output_tokens=fields.whole("output", "completion", "output_tokens", "completion_tokens") or 0,
        sent_s=fields.number("start", "t", "start_s"),
        ttft_s=ttft_s,
        e2e_s=fields.seconds("wall", "wall_s"),
        session=str(fields.values.get("session")),
        turn=fields.whole("step"),
        hit_tokens=hit,
        failed=bool(fields.values.get("error")) or ttft_s is None,
    )
